package lockdown

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	// x32Bit is of amd64 only.
	x32Bit     = 0
	tiocLinux  = unix.TIOCLINUX
	newfstatat = unix.SYS_FSTATAT
)

// ordinaryLegacy are calls of older architectures.
var ordinaryLegacy []int

// workerLegacy are calls of older architectures.
var workerLegacy []int

// forkedLegacy are calls that make processes; there are none here.
var forkedLegacy []int

// onLegacy are calls that newer architectures lack, such as this one.
func (f *filter) onLegacy() {}
