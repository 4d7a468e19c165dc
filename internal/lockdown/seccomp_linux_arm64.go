package lockdown

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	// x32Bit is used on amd64 only.
	x32Bit     = 0
	tiocLinux  = unix.TIOCLINUX
	newfstatat = unix.SYS_FSTATAT
)

// allowedLegacy is empty: only older architectures have such calls.
var allowedLegacy []int

// workerLegacy is empty: only older architectures have such calls.
var workerLegacy []int

// forkedLegacy is empty: only older architectures have such calls.
var forkedLegacy []int

// addLegacyCalls does nothing: only older architectures have such calls.
func (f *filter) addLegacyCalls() {}
