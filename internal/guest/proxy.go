//go:build unix

package guest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/proc"
)

// Limits on a program's request to the proxy, before it is connected.
const (
	maxHead     = 64 << 10
	headTimeout = 30 * time.Second
)

// listenProxy makes the proxy's socket, and adds its address to the program's
// environment. Connections that are made before there is a program wait.
func (r *run) listenProxy() (net.Listener, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err == nil {
		r.env = proc.ProxyEnviron("http://" + l.Addr().String())
	}
	return l, err
}

// serveProxy serves the program's connections until the listener is closed. The
// server, not the guest, decides which of them are allowed.
func (r *run) serveProxy(ctx context.Context, l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go r.proxy(ctx, conn)
	}
}

func (r *run) proxy(ctx context.Context, conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(headTimeout))
	in := bufio.NewReaderSize(conn, maxHead)
	to, err := readTarget(in)
	if err != nil {
		answer(conn, "400 Bad Request", err.Error())
		return
	}
	line, err := r.lines.Open(ctx, to.address)
	if err != nil {
		e := toolroom.AsError(err)
		status := "502 Bad Gateway"
		if e.Code == toolroom.CodeDenied {
			status = "403 Forbidden"
		}
		text := e.Message
		if e.Hint != "" {
			text += "; try: " + e.Hint
		}
		answer(conn, status, text)
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	if to.head == "" {
		if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
			line.Close()
			conn.Close()
			return
		}
		line.Relay(in, conn)
		return
	}
	line.Relay(io.MultiReader(strings.NewReader(to.head), in), conn)
}

// answer sends a response of the proxy itself, and closes the connection.
func answer(conn net.Conn, status, text string) {
	defer conn.Close()
	text = "toolroom: " + text + "\n"
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, len(text), text)
}

// target is the destination of a request: of CONNECT, or of a plain request, whose
// head is rewritten for the destination server.
type target struct {
	address string // host:port
	head    string // empty for CONNECT
}

// readTarget reads the head of a request to a proxy (RFC 9112, section 3.2). A plain
// request is the only one of its connection: the server is asked to close it, because
// the next request may be to another host.
func readTarget(in *bufio.Reader) (target, error) {
	first, err := readLine(in)
	if err != nil {
		return target{}, err
	}
	method, rest, _ := strings.Cut(first, " ")
	address, version, ok := strings.Cut(rest, " ")
	if !ok || !strings.HasPrefix(version, "HTTP/1.") {
		return target{}, errors.New("this is an HTTP proxy")
	}
	var head strings.Builder
	for size := 0; ; {
		line, err := readLine(in)
		if err != nil {
			return target{}, err
		}
		if size += len(line); size > maxHead {
			return target{}, errors.New("the head of the request is too long")
		}
		if line == "" {
			break
		}
		name, _, ok := strings.Cut(line, ":")
		if !ok || strings.ContainsAny(name, " \t") {
			return target{}, errors.New("a header line of the request is malformed")
		}
		switch strings.ToLower(name) {
		case "connection", "proxy-connection", "proxy-authorization", "keep-alive":
		default:
			head.WriteString(line + "\r\n")
		}
	}
	if method == "CONNECT" {
		return target{address: address}, nil
	}
	where, ok := cutPrefixFold(address, "http://")
	if !ok {
		return target{}, errors.New("this is a proxy: send an absolute http:// address, or CONNECT for https")
	}
	end := strings.IndexAny(where, "/?#")
	if end < 0 {
		end = len(where)
	}
	address, path := where[:end], where[end:]
	if strings.Contains(address, "@") {
		return target{}, errors.New("the address contains a user or password; send credentials in a header")
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(strings.Trim(address, "[]"), "80")
	}
	return target{address, fmt.Sprintf("%s %s %s\r\n%sConnection: close\r\n\r\n", method, path, version, &head)}, nil
}

// readLine reads a line and strips its end.
func readLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return "", fmt.Errorf("read the request: %w", err)
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}

func cutPrefixFold(s, prefix string) (rest string, ok bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}
