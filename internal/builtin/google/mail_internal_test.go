package google

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Each part is read once, however deep it lies: a mail of some kilobytes must not cost a
// step for each of 2^depth ways to it.
func TestAMailOfNestedPartsIsReadOnce(t *testing.T) {
	t.Parallel()
	mail := part{MIMEType: "text/html"}
	mail.Body.Data = base64.URLEncoding.EncodeToString([]byte("<p>" + strings.Repeat(" <b> </b>", 100))) // no text
	for depth := range maxDepth {
		mail = part{MIMEType: fmt.Sprintf("multipart/x-%d", depth), Parts: []part{mail}}
	}
	began := time.Now()
	if text := mail.text(t.Context(), 0); text != "" {
		t.Errorf("the text is %q", text)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}
