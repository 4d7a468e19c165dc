package library

import (
	"strings"

	"github.com/yosida95/uritemplate/v3"
)

// fits reports whether a URI can come from an RFC 6570 template. A template
// that cannot be read fits nothing.
func fits(template, uri string) bool {
	// The text before the first expression decides quickly for most.
	if at := strings.IndexByte(template, '{'); at < 0 || !strings.HasPrefix(uri, template[:at]) {
		return template == uri
	}
	t, err := uritemplate.New(template)
	return err == nil && t.Match(uri) != nil
}
