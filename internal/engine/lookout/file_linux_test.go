package lookout

import (
	"errors"
	"io"
	"os"
	"testing"
)

func TestAFileIsReadWithAndWithoutWaiting(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*os.File) (Source, error){"polled": Polled, "held": Held} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer from.Close()
			source, err := open(from)
			if err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 8)
			if n, err := source.Try(b); n != 0 || err != nil {
				t.Errorf("of nothing it read %d bytes, %v", n, err)
			}
			write := func(text string) {
				if _, err := to.WriteString(text); err != nil {
					t.Error(err)
				}
			}
			write("one")
			if n, err := source.Try(b); string(b[:n]) != "one" || err != nil {
				t.Errorf("%q, %v", b[:n], err)
			}
			go write("two")
			if n, err := source.Read(b); string(b[:n]) != "two" || err != nil {
				t.Errorf("%q, %v", b[:n], err)
			}
			if err := to.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := source.Try(b); !errors.Is(err, io.EOF) {
				t.Errorf("at the end: %v", err)
			}
			if _, err := source.Read(b); !errors.Is(err, io.EOF) {
				t.Errorf("at the end: %v", err)
			}
		})
	}
}

func TestAFileThatIsClosedIsNoLongerLookedAt(t *testing.T) {
	t.Parallel()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	source, err := Polled(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := from.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := source.Try(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes", n)
	}
}
