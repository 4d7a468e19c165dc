package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"

	"github.com/toolroom/toolroom"
)

// Tunnel connects to host:port like DialContext. If there is a proxy, it connects through
// the proxy with CONNECT.
func (g *Guard) Tunnel(ctx context.Context, address string) (net.Conn, error) {
	u := &url.URL{Scheme: "https", Host: address}
	if !g.proxied(u) {
		return g.DialContext(ctx, "tcp", address)
	}
	t, err := g.parseURLTarget(u)
	if err == nil {
		err = g.judgeProxied(ctx, t)
	}
	if err != nil {
		return nil, err
	}
	if g.proxy.Scheme == "socks5" {
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "programs with a guarded network cannot use a SOCKS proxy").
			WithHint("set egress.proxy to an HTTP proxy")
	}
	return g.connect(ctx, address)
}

// connect requests a connection from the proxy.
func (g *Guard) connect(ctx context.Context, address string) (net.Conn, error) {
	conn, err := g.DialContext(ctx, "tcp", net.JoinHostPort(g.proxy.Hostname(), portText(g.proxy)))
	if err != nil {
		return nil, err
	}
	if g.proxy.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: g.proxy.Hostname()})
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if user := g.proxy.User; user != nil {
		password, _ := user.Password()
		request.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	r := bufio.NewReader(conn)
	if err := sendConnect(conn, r, request); err != nil {
		conn.Close()
		return nil, err
	}
	if r.Buffered() > 0 {
		return &bufferedConn{conn, r}, nil
	}
	return conn, nil
}

// sendConnect sends a CONNECT request and reads the proxy's answer from r.
func sendConnect(conn net.Conn, r *bufio.Reader, request *http.Request) error {
	if err := request.Write(conn); err != nil {
		return err
	}
	answer, err := http.ReadResponse(r, request)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the proxy answers %s for %s", answer.Status, request.Host)
	}
	return err
}

// bufferedConn is a connection some of whose data was read with the proxy's answer: servers of
// protocols such as SSH and SMTP speak first.
type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// CloseWrite closes one direction of the connection.
func (c *bufferedConn) CloseWrite() error {
	closeWrite(c.Conn)
	return nil
}
