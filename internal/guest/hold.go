//go:build unix

package guest

import (
	"context"
	"fmt"
	"io"
	"os"
)

// aheadLanguage is that whose interpreter is prepared: starting it takes far
// longer than starting the others' programs.
const aheadLanguage = "python"

// hold prepares an interpreter, where there is one, says [Held], and returns when
// it hears a byte. A sandbox may be kept now and started many times, so nothing
// that must differ from run to run is made before.
func (r *run) hold(ctx context.Context, stream io.ReadWriter) (err error) {
	if r.ahead, err = r.prepare(ctx); err != nil {
		return err
	}
	if _, err := io.WriteString(stream, Held); err != nil {
		return fmt.Errorf("say that it waits: %w", err)
	}
	_, err = io.ReadFull(stream, make([]byte, 1))
	return err
}

// prepare starts an interpreter that waits for its program; nil where there is
// none, or where its limits are those of the program.
func (r *run) prepare(ctx context.Context) (*interpreting, error) {
	path := find(aheadLanguage)
	if path == "" || os.Getenv(RlimitEnv) != "" {
		return nil, nil
	}
	i, err := r.launch(ctx, aheadLanguage, path, HoldEnv+"=1")
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", path, err)
	}
	if _, err := io.ReadFull(i.stream, make([]byte, 1)); err != nil {
		return nil, fmt.Errorf("%s ended before a program came: %s", path, i.wait())
	}
	return i, nil
}
