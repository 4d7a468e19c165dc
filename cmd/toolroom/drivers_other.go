//go:build !linux

package main

import (
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/sandbox"
)

// linuxDrivers returns none, because this is not Linux.
func linuxDrivers(app.Runtimes) []sandbox.Driver { return nil }
