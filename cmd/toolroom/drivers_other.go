//go:build !linux

package main

import (
	"github.com/toolroom/toolroom/room"
	"github.com/toolroom/toolroom/sandbox"
)

// linuxDrivers returns none, because this is not Linux.
func linuxDrivers(room.Runtimes) []sandbox.Driver { return nil }
