package auth

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/server/problem"
)

// checkOrigin keeps the pages of other origins out, also those that have made a
// name of theirs point at this machine (DNS rebinding).
func (o *Options) checkOrigin(next http.Handler) http.Handler {
	listen := hostname(o.Listen)
	onlyHere := isLoopback(listen)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostname(r.Host)
		if onlyHere && !isLoopback(host) && !strings.EqualFold(host, listen) {
			problem.Write(w, forbidden("the request names the host "+strconv.Quote(r.Host)+", and this server answers to this machine only",
				"use http://"+o.Listen))
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" && !o.mayCall(origin, r.Host) {
			problem.Write(w, forbidden("pages of the origin "+strconv.Quote(origin)+" may not call this server",
				"add it to the allowed origins of the server"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (o *Options) mayCall(origin, host string) bool {
	if slices.Contains(o.Origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}

// hostname is the host of host:port, of host, or of [v6]:port, without
// brackets.
func hostname(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.Trim(hostport, "[]")
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

func forbidden(message, hint string) error {
	e := toolroom.Errorf(toolroom.CodeDenied, "%s", message)
	return e.WithHint("%s", hint)
}
