// Command openid runs the example server of zitadel/oidc on loopback, for a test: it
// prints its issuer, and reads where it may send people back to.
package main

import (
	"bufio"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	issuer := "http://" + listener.Addr().String() + "/"
	fmt.Println(issuer)
	redirect := bufio.NewScanner(os.Stdin)
	if !redirect.Scan() {
		log.Fatal("no redirect address was given")
	}
	storage.RegisterClients(storage.WebClient("web", "secret", redirect.Text()))
	handler := exampleop.SetupServer(issuer, storage.NewStorage(storage.NewUserStore(issuer)), slog.New(slog.NewTextHandler(os.Stderr, nil)), false)
	log.Fatal(http.Serve(listener, handler))
}
