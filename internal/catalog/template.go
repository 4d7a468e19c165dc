package catalog

import (
	"strings"

	"github.com/yosida95/uritemplate/v3"
)

// Limits of a match. Its time grows with the square of the number of variables, which the
// source chooses, and with the length of the URI, which the caller chooses.
const (
	maxTemplate  = 4 << 10 // bytes
	maxVariables = 20
	maxMatch     = 50_000 // variables times bytes of the URI
)

// matchesTemplate reports whether a URI matches an RFC 6570 template. A template that is
// invalid or takes too long matches nothing.
func matchesTemplate(template, uri string) bool {
	// The text before the first expression excludes most URIs quickly.
	if at := strings.IndexByte(template, '{'); at < 0 || !strings.HasPrefix(uri, template[:at]) {
		return template == uri
	}
	variables := strings.Count(template, "{") + strings.Count(template, ",")
	if len(template) > maxTemplate || variables > maxVariables || variables*len(uri) > maxMatch {
		return false
	}
	t, err := uritemplate.New(template)
	return err == nil && t.Match(uri) != nil
}
