package server

import (
	"os"
	"testing"

	"github.com/toolroom/toolroom/internal/app"
)

func TestMain(m *testing.M) {
	if code, ok := app.RunHelper(os.Args[1:]); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}
