//go:build unix

package folder

import "syscall"

// nonBlocking makes opening a pipe return at once.
const nonBlocking = syscall.O_NONBLOCK | syscall.O_NOCTTY
