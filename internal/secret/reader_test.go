package secret

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestAReaderRedactsValuesThatArriveInPieces(t *testing.T) {
	t.Parallel()
	m := &Redactor{}
	if from := strings.NewReader("x"); m.Reader(from) != io.Reader(from) {
		t.Error("a reader is wrapped though no values are known")
	}
	m.Learn(map[Ref]string{{Scope: "github", Name: "token"}: "ghp_1234567890"})
	text := strings.Repeat("the token is ghp_1234567890. ", 5000) + "ghp_123"
	got, err := io.ReadAll(m.Reader(iotest.OneByteReader(strings.NewReader(text))))
	if want := m.Text(text); err != nil || string(got) != want {
		t.Errorf("%d bytes (%v), want %d", len(got), err, len(want))
	}
	broken := errors.New("broken")
	got, err = io.ReadAll(m.Reader(io.MultiReader(strings.NewReader("ghp_1234567890 "), iotest.ErrReader(broken))))
	if string(got) != "[secret github/token] " || !errors.Is(err, broken) {
		t.Errorf("%q, %v", got, err)
	}
}
