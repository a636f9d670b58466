package identity

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
)

// The cost of a password hash: argon2id with 19 MiB, 2 passes and 1 lane, the
// least that OWASP recommends. More memory would be a stranger's to claim: the
// sign-in is the one door that is open to everybody.
const (
	argonMemory  = 19 << 10 // KiB
	argonPasses  = 2
	argonLanes   = 1
	argonSalt    = 16
	argonKey     = 32
	minPassword  = 10
	maxPassword  = 1024
	argonVersion = argon2.Version
)

// HashPassword makes the hash that is stored, in the PHC string format. Too
// short and too long passwords are errors; nothing else is asked of one.
func HashPassword(password string) (string, error) {
	if len(password) < minPassword || len(password) > maxPassword {
		return "", fmt.Errorf("a password has %d to %d bytes", minPassword, maxPassword)
	}
	salt := make([]byte, argonSalt)
	rand.Read(salt)
	sum := argon2.IDKey([]byte(password), salt, argonPasses, argonMemory, argonLanes, argonKey)
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argonVersion, argonMemory, argonPasses, argonLanes, encode(salt), encode(sum)), nil
}

// CheckPassword reports whether password is the one that was hashed. A hash
// that cannot be read is an error, and no password is right.
func CheckPassword(hash, password string) (bool, error) {
	var version, memory, passes, lanes int
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[1] != "argon2id" {
		return false, errors.New("the stored password hash is not argon2id")
	}
	if _, err := fmt.Sscanf(parts[2]+" "+parts[3], "v=%d m=%d,t=%d,p=%d", &version, &memory, &passes, &lanes); err != nil || version != argonVersion {
		return false, errors.New("the stored password hash has unknown parameters")
	}
	if memory < 8 || memory > 1<<20 || passes < 1 || passes > 100 || lanes < 1 || lanes > 255 {
		return false, errors.New("the stored password hash has parameters out of bounds")
	}
	salt, err1 := base64.RawStdEncoding.DecodeString(parts[4])
	want, err2 := base64.RawStdEncoding.DecodeString(parts[5])
	if err := errors.Join(err1, err2); err != nil || len(want) != argonKey {
		return false, errors.New("the stored password hash is damaged")
	}
	if len(password) > maxPassword {
		password = password[:maxPassword+1] // bounded work, and never equal to a password that was accepted
	}
	got := argon2.IDKey([]byte(password), salt, uint32(passes), uint32(memory), uint8(lanes), argonKey) // #nosec G115 -- bounded above
	return subtle.ConstantTimeCompare(got, want) == 1, nil
}
