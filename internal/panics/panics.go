// Package panics turns panics into errors, so that a bug in one call or one
// background task does not end the process.
package panics

import (
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Error is a panic as an error.
type Error struct {
	Value any    // the argument of panic
	Stack string // the stack of the goroutine that panicked
}

func (e *Error) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Catch runs do. If do panics, Catch returns an [*Error].
func Catch(do func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Error{v, string(debug.Stack())}
		}
	}()
	do()
	return nil
}

// Log runs do and logs its panic. Use it for the functions of goroutines, where an
// unrecovered panic ends the process.
func Log(log *slog.Logger, task string, do func()) {
	defer func() {
		if v := recover(); v != nil {
			log.Error("panic in "+task, "panic", v, "stack", string(debug.Stack()))
		}
	}()
	do()
}
