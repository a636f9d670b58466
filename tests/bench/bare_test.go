package bench

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// bareServer makes the test program a server that does nothing but read a body and
// answer; its value is the file for its address.
const bareServer = "HOLDPOINT_BENCH_BARE"

func TestMain(m *testing.M) {
	if file := os.Getenv(bareServer); file != "" {
		serveBare(file)
		return
	}
	os.Exit(m.Run())
}

// serveBare answers like the gate, to whatever is asked.
func serveBare(file string) {
	answer := append([]byte(`{"gate_decision":"pass","padding":"`), append(bytes.Repeat([]byte("x"), 2400), `"}`...)...)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer)
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = os.WriteFile(file, []byte("http://"+listener.Addr().String()), 0o600)
	}
	if err == nil {
		err = server.Serve(listener)
	}
	println(err.Error())
	os.Exit(1)
}

// startBare starts the server that does nothing, a process of its own as the gate is.
func startBare(b *testing.B) machine {
	b.Helper()
	file := filepath.Join(b.TempDir(), "address")
	bare := exec.Command(os.Args[0], "-test.run", "^$") // #nosec G204 -- itself
	bare.Env = append(os.Environ(), bareServer+"="+file)
	bare.Stderr = os.Stderr
	if err := bare.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = bare.Process.Kill()
		_ = bare.Wait()
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if address, err := os.ReadFile(file); err == nil && len(address) > 0 {
			return machine{URL: string(address)}
		}
		if time.Now().After(deadline) {
			b.Fatal("the bare server is not ready")
		}
	}
}
