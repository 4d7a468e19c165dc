//go:build unix

package guest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
)

// aheadLanguage returns the language whose interpreter is prepared. By default it is the
// one that takes longest to start.
func aheadLanguage() string { return cmp.Or(os.Getenv(AheadLanguageEnv), "python") }

// waitForRelease prepares an interpreter, if there is one, writes [Held], and returns when it
// has read a byte. The driver may take a snapshot of the sandbox at this point and
// start it many times, so everything that must differ between runs is made later.
func (r *run) waitForRelease(ctx context.Context, stream io.ReadWriter) (err error) {
	if r.ahead, err = r.prepare(ctx); err != nil {
		return err
	}
	if _, err := io.WriteString(stream, Held); err != nil {
		return fmt.Errorf("report that the guest waits: %w", err)
	}
	_, err = io.ReadFull(stream, make([]byte, 1))
	return err
}

// prepare starts an interpreter that waits for its program. It returns nil if there
// is no interpreter, or if its limits depend on the program.
func (r *run) prepare(ctx context.Context) (*interpreterProcess, error) {
	path := findInterpreter(aheadLanguage())
	if path == "" || os.Getenv(RlimitEnv) != "" {
		return nil, nil
	}
	i, err := r.launch(ctx, aheadLanguage(), path, HoldEnv+"=1")
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", path, err)
	}
	if _, err := io.ReadFull(i.stream, make([]byte, 1)); err != nil {
		return nil, fmt.Errorf("%s ended before it received a program: %s", path, i.wait())
	}
	return i, nil
}
