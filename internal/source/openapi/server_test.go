package openapi

import (
	"net/url"
	"testing"
)

func TestADocumentOverTLSCannotSendCredentialsInPlainText(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		document, server string
		leaks            bool
	}{
		{"https://api.example.com/openapi.yaml", "https://api.example.com/v1", false},
		{"https://api.example.com/openapi.yaml", "http://api.example.com/v1", true},
		{"http://api.example.com/openapi.yaml", "https://api.example.com/v1", false},
		{"http://api.example.com/openapi.yaml", "http://api.example.com/v1", false},
		{"https://api.example.com/openapi.yaml", "https://api.example.org/v1", true},
	} {
		document, errDocument := url.Parse(one.document)
		server, errServer := url.Parse(one.server)
		if errDocument != nil || errServer != nil {
			t.Fatal(errDocument, errServer)
		}
		i := &importer{config: &Config{Auth: map[string]string{"key": "secret://a"}}, base: document}
		if got := i.leaksTo(server); got != one.leaks {
			t.Errorf("%s to %s: %v, want %v", one.document, one.server, got, one.leaks)
		}
	}
}
