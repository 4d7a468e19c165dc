// Command petstored serves the pet store of package openapitest, for tests that
// need it in a process of its own.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/toolroom/toolroom/internal/source/openapi/openapitest"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8081", "`address` to listen on; port 0 takes any")
	flag.Parse()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatalf("petstored: %v; give another address with -listen", err)
	}
	fmt.Printf("http://%s/openapi.yaml\n", listener.Addr())
	server := &http.Server{Handler: openapitest.New(), ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}
