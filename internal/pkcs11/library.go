package pkcs11

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// ulong is CK_ULONG: C's unsigned long, as wide as a pointer on every Unix.
type ulong = uint

// version is CK_VERSION.
type version struct{ major, minor byte }

// functionList is CK_FUNCTION_LIST of PKCS#11 2.40, up to the last function that is called.
// Later versions only add behind it.
type functionList struct {
	version version
	call    [numFunctions]uintptr
}

// The functions' places in the list.
const (
	cInitialize        = 0
	cFinalize          = 1
	cGetSlotList       = 4
	cGetTokenInfo      = 6
	cOpenSession       = 12
	cCloseSession      = 13
	cLogin             = 18
	cGetAttributeValue = 24
	cFindObjectsInit   = 26
	cFindObjects       = 27
	cFindObjectsFinal  = 28
	cEncryptInit       = 29
	cEncrypt           = 30
	cDecryptInit       = 33
	cDecrypt           = 34
	numFunctions       = 35
)

// initializeArgs is CK_C_INITIALIZE_ARGS.
type initializeArgs struct {
	_     [4]uintptr // functions that make and use locks: the system's are used
	flags ulong
	_     uintptr
}

// tokenInfo is CK_TOKEN_INFO.
type tokenInfo struct {
	label, manufacturer [32]byte
	model, serial       [16]byte
	flags               ulong
	_                   [10]ulong  // how many sessions and how much memory
	_                   [2]version // of hardware and firmware
	_                   [16]byte   // the token's time
}

// attribute is CK_ATTRIBUTE, mechanism CK_MECHANISM, and gcmParams CK_GCM_PARAMS.
type (
	attribute struct {
		kind  ulong
		value unsafe.Pointer
		size  ulong
	}
	mechanism struct {
		kind  ulong
		param unsafe.Pointer
		size  ulong
	}
	gcmParams struct {
		iv      unsafe.Pointer
		ivSize  ulong
		ivBits  ulong
		aad     unsafe.Pointer
		aadSize ulong
		tagBits ulong
	}
)

// Values of the standard that are used here.
const (
	osLocking            = 0x2
	serialSession        = 0x4
	userType             = 1
	initialized          = 0x400
	pinFinalTry          = 0x20000
	pinLocked            = 0x40000
	unavailable          = ^ulong(0)
	classAttribute       = 0x0
	privateAttribute     = 0x2
	labelAttribute       = 0x3
	keyTypeAttribute     = 0x100
	idAttribute          = 0x102
	sensitiveAttribute   = 0x103
	extractableAttribute = 0x162
	secretKey            = 4
	aesKey               = 0x1f
	aesGCM               = 0x1087
)

// ReturnValue is what a function of the library has returned: its number, by the standard.
type ReturnValue uint

// What is told apart.
const (
	noAttribute       ReturnValue = 0x12
	deviceError       ReturnValue = 0x30
	deviceRemoved     ReturnValue = 0x32
	dataInvalid       ReturnValue = 0x20
	encryptedInvalid  ReturnValue = 0x40
	encryptedLength   ReturnValue = 0x41
	generalError      ReturnValue = 0x5
	functionFailed    ReturnValue = 0x6
	mechanismInvalid  ReturnValue = 0x70
	pinIncorrect      ReturnValue = 0xa0
	pinInvalid        ReturnValue = 0xa1
	pinLength         ReturnValue = 0xa2
	pinIsLocked       ReturnValue = 0xa4
	sessionClosed     ReturnValue = 0xb0
	sessionInvalid    ReturnValue = 0xb3
	tokenNotPresent   ReturnValue = 0xe0
	tokenUnrecognized ReturnValue = 0xe1
	alreadyLoggedIn   ReturnValue = 0x100
	notLoggedIn       ReturnValue = 0x101
	alreadyInit       ReturnValue = 0x191
)

var names = map[ReturnValue]string{
	deviceError: "the device has an error", deviceRemoved: "the device was removed", dataInvalid: "the data are invalid",
	encryptedInvalid: "the ciphertext is not of this key", encryptedLength: "the ciphertext has a wrong length",
	generalError: "general error", functionFailed: "the function failed", mechanismInvalid: "it does not know AES-GCM",
	pinIncorrect: "the PIN is wrong", pinInvalid: "the PIN has characters that it does not take", pinLength: "the PIN is too short or too long",
	pinIsLocked: "the PIN is locked", sessionClosed: "the session was closed", sessionInvalid: "the session is gone",
	tokenNotPresent: "the token is not there", tokenUnrecognized: "the token is not recognized", notLoggedIn: "nobody is logged in",
}

func (r ReturnValue) Error() string {
	if name := names[r]; name != "" {
		return fmt.Sprintf("%s (PKCS#11 error 0x%x)", name, uint(r))
	}
	return fmt.Sprintf("PKCS#11 error 0x%x", uint(r))
}

// library is a PKCS#11 library in this process.
type library struct {
	initialize     func(*initializeArgs) ulong
	finalize       func(unsafe.Pointer) ulong
	getSlotList    func(tokenPresent byte, list *ulong, count *ulong) ulong
	getTokenInfo   func(slot ulong, info *tokenInfo) ulong
	openSession    func(slot, flags ulong, application, notify unsafe.Pointer, session *ulong) ulong
	closeSession   func(session ulong) ulong
	login          func(session, user ulong, pin *byte, size ulong) ulong
	getAttributes  func(session, object ulong, template *attribute, count ulong) ulong
	findInit       func(session ulong, template *attribute, count ulong) ulong
	find           func(session ulong, objects *ulong, most ulong, count *ulong) ulong
	findFinal      func(session ulong) ulong
	encryptInit    func(session ulong, m *mechanism, key ulong) ulong
	encrypt        func(session ulong, data *byte, size ulong, into *byte, intoSize *ulong) ulong
	decryptInit    func(session ulong, m *mechanism, key ulong) ulong
	decrypt        func(session ulong, data *byte, size ulong, into *byte, intoSize *ulong) ulong
	initializedNow bool
}

// load opens the library at an absolute path, and initializes it.
func load(path string) (*library, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("module-path: want the absolute path of a PKCS#11 library, got %q", path)
	}
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("open the PKCS#11 library: %w", err)
	}
	symbol, err := purego.Dlsym(handle, "C_GetFunctionList")
	if err != nil {
		return nil, fmt.Errorf("%s is no PKCS#11 library: it has no C_GetFunctionList", path)
	}
	var getFunctionList func(**functionList) ulong
	purego.RegisterFunc(&getFunctionList, symbol)
	var list *functionList
	if err := returnError(getFunctionList(&list)); err != nil || list == nil {
		return nil, errors.Join(fmt.Errorf("%s tells no functions", path), err)
	}
	if list.version.major < 2 {
		return nil, fmt.Errorf("%s has version %d.%d of PKCS#11, and AES-GCM came with 2.20", path, list.version.major, list.version.minor)
	}
	l := &library{}
	for at, f := range map[int]any{
		cInitialize: &l.initialize, cFinalize: &l.finalize, cGetSlotList: &l.getSlotList, cGetTokenInfo: &l.getTokenInfo, cOpenSession: &l.openSession,
		cCloseSession: &l.closeSession, cLogin: &l.login, cGetAttributeValue: &l.getAttributes, cFindObjectsInit: &l.findInit, cFindObjects: &l.find,
		cFindObjectsFinal: &l.findFinal, cEncryptInit: &l.encryptInit, cEncrypt: &l.encrypt, cDecryptInit: &l.decryptInit, cDecrypt: &l.decrypt,
	} {
		if list.call[at] == 0 {
			return nil, fmt.Errorf("%s lacks function %d of PKCS#11", path, at)
		}
		purego.RegisterFunc(f, list.call[at])
	}
	err = returnError(l.initialize(&initializeArgs{flags: osLocking}))
	l.initializedNow = err == nil
	if err != nil && !errors.Is(err, alreadyInit) {
		return nil, fmt.Errorf("initialize %s: %w", path, err)
	}
	return l, nil
}

// close ends the library's work in this process, if load began it.
func (l *library) close() {
	if l.initializedNow {
		l.finalize(nil)
	}
}

// returnError is what a function has returned, as an error.
func returnError(rv ulong) error {
	if rv == 0 {
		return nil
	}
	return ReturnValue(rv)
}

// slots are those that have a token.
func (l *library) slots() ([]ulong, error) {
	var n ulong
	if err := returnError(l.getSlotList(1, nil, &n)); err != nil || n == 0 {
		return nil, err
	}
	list := make([]ulong, n)
	if err := returnError(l.getSlotList(1, &list[0], &n)); err != nil {
		return nil, err
	}
	return list[:min(int(n), len(list))], nil //nolint:gosec // no machine has so many
}

// objects finds what has these attributes, two at most.
func (l *library) objects(session ulong, want []attribute) (found []ulong, err error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	for _, a := range want {
		pin.Pin(a.value)
	}
	if err := returnError(l.findInit(session, &want[0], ulong(len(want)))); err != nil {
		return nil, err
	}
	defer l.findFinal(session)
	for len(found) < 2 {
		var object, n ulong
		if err := returnError(l.find(session, &object, 1, &n)); err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		found = append(found, object)
	}
	return found, nil
}

// attribute reads one attribute of an object; nil where it has none.
func (l *library) attribute(session, object, kind ulong) ([]byte, error) {
	a := attribute{kind: kind}
	if err := returnError(l.getAttributes(session, object, &a, 1)); errors.Is(err, noAttribute) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if a.size == 0 || a.size == unavailable || a.size > 1<<16 {
		return nil, nil
	}
	value := make([]byte, a.size)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&value[0])
	a.value = unsafe.Pointer(&value[0])
	if err := returnError(l.getAttributes(session, object, &a, 1)); err != nil {
		return nil, err
	}
	return value[:min(int(a.size), len(value))], nil //nolint:gosec // bounded above
}

// gcm runs one of the library's two directions of AES-GCM on data, with room for more
// bytes than there are. The library may have put another nonce into iv.
func (l *library) gcm(begin func(ulong, *mechanism, ulong) ulong, run func(ulong, *byte, ulong, *byte, *ulong) ulong, session, key ulong, iv, aad, data []byte, room int) ([]byte, error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&iv[0])
	pin.Pin(&aad[0])
	params := &gcmParams{iv: unsafe.Pointer(&iv[0]), ivSize: ulong(len(iv)), ivBits: ulong(8 * len(iv)), aad: unsafe.Pointer(&aad[0]), aadSize: ulong(len(aad)), tagBits: 8 * tagSize}
	pin.Pin(params)
	m := &mechanism{kind: aesGCM, param: unsafe.Pointer(params), size: ulong(unsafe.Sizeof(*params))}
	if err := returnError(begin(session, m, key)); err != nil {
		return nil, err
	}
	out := make([]byte, len(data)+room)
	n := ulong(len(out))
	if err := returnError(run(session, &data[0], ulong(len(data)), &out[0], &n)); err != nil {
		return nil, err
	}
	if n > ulong(len(out)) {
		return nil, errors.New("the library says that it has written more than there is room for")
	}
	return out[:n], nil
}
