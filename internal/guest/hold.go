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
func (r *run) hold(ctx context.Context, stream io.ReadWriter) error {
	if path := find(aheadLanguage); path != "" && os.Getenv(RlimitEnv) == "" { // rlimits are the program's
		var err error
		if r.ahead, err = r.launch(ctx, aheadLanguage, path, HoldEnv+"=1"); err != nil {
			return fmt.Errorf("prepare %s: %w", path, err)
		}
		if _, err := io.ReadFull(r.ahead.stream, make([]byte, 1)); err != nil {
			return fmt.Errorf("%s ended before a program came: %s", path, r.ahead.wait())
		}
	}
	if _, err := io.WriteString(stream, Held); err != nil {
		return fmt.Errorf("say that it waits: %w", err)
	}
	_, err := io.ReadFull(stream, make([]byte, 1))
	return err
}
