package quickjs

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/toolroom/toolroom/internal/engine/worker"
)

//go:embed quickjs.wasm
var blob []byte

// Version names the embedded engine: npm quickjs-wasi, exact version.
const Version = "quickjs-wasi 3.6.2"

// blobSum is the SHA-256 of quickjs.wasm; README.md describes how to build it.
const blobSum = "d4c9375f2b1ca4dc95f72c8aa2982a7a9951ac8011490d79c6582df732b4bbd9"

func checkBlob() error {
	if sum := sha256.Sum256(blob); hex.EncodeToString(sum[:]) != blobSum {
		return errors.New("the embedded QuickJS is not the one that was checked in: its SHA-256 differs; build from a clean checkout")
	}
	return nil
}

//go:embed prelude/*.js
var preludeFiles embed.FS

// Prelude returns the JavaScript that runs before every JavaScript program, on any engine:
// the encoding of values, the frames of the bridge, and the global variables of programs. It
// is its files, in order, in a scope of their own. It uses the engine only through the object
// __hostFunctions.
func Prelude() string {
	var b strings.Builder
	b.WriteString("(() => {\n")
	list, _ := preludeFiles.ReadDir("prelude") // the embedded folder always exists
	for _, f := range list {
		text, _ := preludeFiles.ReadFile("prelude/" + f.Name())
		b.Write(text)
	}
	b.WriteString("})();\n")
	return b.String()
}

// Name is the engine's id.
const Name = "js"

// WorkerArg is the first argument of a binary that is executed as a worker. Its
// main must pass the arguments after it to [Main].
const WorkerArg = "__engine-worker"

// Main is the main function of a worker process. It returns the exit code.
func Main(ctx context.Context, arguments []string) int {
	return worker.Main(ctx, arguments, worker.ServiceConfig{Waits: true, Service: func(ctx context.Context, cacheDir string) (worker.Service, error) {
		m, err := New(ctx, Prelude(), cacheDir)
		return service{m}, err
	}})
}

// service is a machine whose isolates run the programs that the server sends.
type service struct{ *Machine }
