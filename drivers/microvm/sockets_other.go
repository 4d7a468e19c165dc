//go:build !linux

package microvm

import (
	"errors"
	"net"
	"os"
)

// VMs run on Linux only; Probe says so before one is started.

func socketPair() (*net.UnixConn, *os.File, error) { return nil, nil, errors.ErrUnsupported }

func rights(*os.File) []byte { return nil }
