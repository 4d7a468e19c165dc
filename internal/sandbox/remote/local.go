package remote

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"

	"github.com/toolroom/toolroom/sandbox"
)

// Local configures the connection to a driver of a program on this machine.
type Local struct {
	// Name is the driver's name, and the first part of its paths.
	Name string
	// Dial connects to the program's socket.
	Dial func(context.Context) (net.Conn, error)
	// Lost explains why a request got no answer.
	Lost func(error) error
}

// NewLocal returns a driver of a program on this machine. It returns the program's errors,
// isolation and limits unchanged.
func NewLocal(l Local) *Driver {
	transport := &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return l.Dial(ctx) },
		MaxIdleConnsPerHost: 8, MaxResponseHeaderBytes: 64 << 10,
	}
	c := &client{local: &l, base: "http://program/" + l.Name}
	h := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c.http = func() (*http.Client, error) { return h, nil }
	return &Driver{client: c}
}

// Configure sets the settings of a local driver.
func (d *Driver) Configure(ctx context.Context, settings json.RawMessage) error {
	return d.client.do(ctx, http.MethodPut, PathSettings, settings, nil)
}

// Clean lists and removes what processes that have ended have left behind; see
// [sandbox.Cleaner]. A runner on another machine cleans by itself.
func (d *Driver) Clean(ctx context.Context, dry bool) ([]sandbox.Leftover, error) {
	if d.client.local == nil {
		return nil, nil
	}
	var c Cleaned
	err := d.client.do(ctx, http.MethodPost, PathClean+"?dry="+strconv.FormatBool(dry), nil, &c)
	if err == nil && c.Error != "" {
		err = errors.New(c.Error)
	}
	return c.Leftovers, err
}
