package httpcall

import (
	"cmp"
	"net"
	"net/url"
	"strings"

	"github.com/toolroom/toolroom"
)

// Effect returns the effect of a request with a method on a service.
func Effect(method string, service *url.URL) toolroom.Effect {
	standard := map[string]string{"http": "80", "https": "443"}[service.Scheme]
	return toolroom.Effect{
		Kind:   toolroom.EffectHost,
		Mode:   strings.ToLower(method),
		Target: net.JoinHostPort(strings.ToLower(service.Hostname()), cmp.Or(service.Port(), standard)),
	}
}
