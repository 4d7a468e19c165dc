package server

import (
	"os"
	"testing"

	"github.com/toolroom/toolroom/room"
)

func TestMain(m *testing.M) {
	if code, ok := room.RunHelper(os.Args[1:]); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}
