package web

import (
	"context"
	"net/http"
	"net/url"

	"github.com/temoto/robotstxt"

	"github.com/toolroom/toolroom"
)

// robots holds the rules of a site; nil data allows everything.
type robots struct{ data *robotstxt.RobotsData }

// checkRobots returns an error if the robots.txt of a site forbids an address. If the rules
// cannot be read, everything is allowed.
func (w *web) checkRobots(ctx context.Context, u *url.URL) error {
	site := u.Scheme + "://" + u.Host
	rules, ok := w.robots.Get(site)
	if !ok {
		rules = &robots{}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, site+"/robots.txt", nil)
		if err != nil {
			return err
		}
		request.Header.Set("User-Agent", w.userAgent())
		response, err := w.transport.RoundTrip(request)
		if toolroom.CodeOf(err) == toolroom.CodeDenied {
			return err
		}
		if err == nil {
			response.Body = http.MaxBytesReader(nil, response.Body, 512<<10)
			rules.data, _ = robotstxt.FromResponse(response)
			response.Body.Close()
		}
		if ctx.Err() == nil {
			w.robots.Add(site, rules)
		}
	}
	if rules.data == nil || rules.data.TestAgent(u.EscapedPath(), "Toolroom") {
		return nil
	}
	return toolroom.Errorf(toolroom.CodeDenied, "the robots.txt of %s does not permit %s", u.Host, u.EscapedPath()).
		WithHint("the operator can allow it in toolroom.yaml: builtin: {web: {robots: false}}")
}
