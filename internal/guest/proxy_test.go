//go:build unix

package guest

import (
	"bufio"
	"strings"
	"testing"
)

func TestTheProxyReadsTheTargetOfARequest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		request string
		want    target
		refused bool
	}{
		{"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n", target{address: "example.com:443"}, false},
		{
			"GET http://example.com/a?b=c HTTP/1.1\r\nHost: example.com\r\nProxy-Connection: keep-alive\r\nConnection: keep-alive, x\r\nProxy-Authorization: Basic eA==\r\nAccept: */*\r\n\r\nbody",
			target{"example.com:80", "GET /a?b=c HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\nConnection: close\r\n\r\n"},
			false,
		},
		{"POST HTTP://example.com:8080 HTTP/1.0\r\n\r\n", target{"example.com:8080", "POST / HTTP/1.0\r\nConnection: close\r\n\r\n"}, false},
		{"GET http://example.com?q=1 HTTP/1.1\n\n", target{"example.com:80", "GET /?q=1 HTTP/1.1\r\nConnection: close\r\n\r\n"}, false},
		{"GET http://[2001:db8::1]/ HTTP/1.1\r\n\r\n", target{"[2001:db8::1]:80", "GET / HTTP/1.1\r\nConnection: close\r\n\r\n"}, false},
		{"GET http://user:secret@example.com/ HTTP/1.1\r\n\r\n", target{}, true},
		{"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", target{}, true},
		{"GET https://example.com/ HTTP/1.1\r\n\r\n", target{}, true},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", target{}, true},
		{"\x16\x03\x01\x02\x00\n\n", target{}, true},
		{"GET http://example.com/ HTTP/1.1\r\nHost: a", target{}, true},
		{"GET http://example.com/ HTTP/1.1\r\n folded: x\r\n\r\n", target{}, true},
		{"GET http://example.com/" + strings.Repeat("a", maxHead) + " HTTP/1.1\r\n\r\n", target{}, true},
		{"GET http://example.com/ HTTP/1.1\r\n" + strings.Repeat("a: b\r\n", maxHead) + "\r\n", target{}, true},
	} {
		got, err := readTarget(bufio.NewReaderSize(strings.NewReader(tt.request), maxHead))
		if (err != nil) != tt.refused || got != tt.want {
			t.Errorf("%.80q is read as %+v, %v", tt.request, got, err)
		}
	}
}
