package effects

import (
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/toolroom/toolroom/internal/egress"
)

// hostPort converts a URL, a host or host:port to host:port. It returns "", an unknown host,
// if programs read the host in different ways.
func hostPort(text string) string {
	if text == "" {
		return ""
	}
	if !strings.Contains(text, "://") {
		if host, port, err := net.SplitHostPort(text); err == nil {
			return joinPlain(host, port)
		}
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.User != nil {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "ws": "80", "ftp": "21", "ssh": "22"}[u.Scheme]
	}
	if port == "" {
		port = "443"
	}
	return joinPlain(u.Hostname(), port)
}

func joinPlain(host, port string) string {
	host = strings.ToLower(host)
	if !egress.IsPlainHost(host) {
		return ""
	}
	return net.JoinHostPort(host, port)
}

// isLoopback reports whether target, a host:port, is localhost or a loopback address.
func isLoopback(target string) bool {
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && egress.Classify(addr) == egress.Loopback
}
