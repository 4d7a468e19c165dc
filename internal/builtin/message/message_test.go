package message_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin/message"
	"github.com/toolroom/toolroom/source"
)

func fixed(key string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return key, nil }
}

// send calls message:send with one channel, named c.
func send(ctx context.Context, t *testing.T, c *message.Channel, args map[string]any) (message.Sent, error) {
	t.Helper()
	c.Transport, c.Dial = http.DefaultTransport, func(ctx context.Context, address string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	data, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	src := message.Pack(map[string]*message.Channel{"c": c}).Source()
	out, err := src.Call(ctx, &source.Request{Call: "call_1", Tool: toolroom.MustParseID("message:send"), Arguments: data})
	var sent message.Sent
	if err == nil {
		err = json.Unmarshal(out.Value, &sent)
	}
	return sent, err
}

// provider is a server with the documented answers of all providers. It knows one key, one
// chat, and the text "slow down" as one message too many.
func provider(t *testing.T) (address string, last func() map[string]any) {
	t.Helper()
	var mu sync.Mutex
	var body map[string]any
	answer := func(w http.ResponseWriter, status int, value any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(value)
	}
	type object = map[string]any
	read := func(r *http.Request) object {
		mu.Lock()
		defer mu.Unlock()
		body = object{}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		return maps.Clone(body)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hook", func(w http.ResponseWriter, r *http.Request) {
		if read(r); r.Header.Get("Authorization") != "Bearer key" && r.Header.Get("Authorization") != "" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/hook", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("POST /slow", func(_ http.ResponseWriter, r *http.Request) { read(r); <-r.Context().Done() })
	mux.HandleFunc("POST /page", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>hello") })
	mux.HandleFunc("POST /chat.postMessage", func(w http.ResponseWriter, r *http.Request) {
		switch b := read(r); {
		case r.Header.Get("Authorization") != "Bearer key":
			answer(w, 200, object{"ok": false, "error": "invalid_auth"})
		case b["text"] == "slow down":
			w.Header().Set("Retry-After", "30")
			answer(w, 429, object{"ok": false, "error": "ratelimited"})
		case b["channel"] != "#team":
			answer(w, 200, object{"ok": false, "error": "channel_not_found"})
		default:
			answer(w, 200, object{"ok": true, "channel": "C123", "ts": "1503435956.000247", "message": object{"text": b["text"]}})
		}
	})
	mux.HandleFunc("POST /{bot}/sendMessage", func(w http.ResponseWriter, r *http.Request) {
		switch b := read(r); {
		case r.PathValue("bot") != "botkey":
			answer(w, 401, object{"ok": false, "error_code": 401, "description": "Unauthorized"})
		case b["text"] == "slow down":
			answer(w, 429, object{"ok": false, "error_code": 429, "description": "Too Many Requests: retry after 30", "parameters": object{"retry_after": 30}})
		case b["chat_id"] != "#team":
			answer(w, 400, object{"ok": false, "error_code": 400, "description": "Bad Request: chat not found"})
		default:
			answer(w, 200, object{"ok": true, "result": object{"message_id": 42, "chat": object{"id": 1}, "text": b["text"]}})
		}
	})
	mux.HandleFunc("PUT /_matrix/client/v3/rooms/{room}/send/m.room.message/{id}", func(w http.ResponseWriter, r *http.Request) {
		switch b := read(r); {
		case r.Header.Get("Authorization") != "Bearer key":
			answer(w, 401, object{"errcode": "M_UNKNOWN_TOKEN", "error": "Unrecognised access token"})
		case b["body"] == "slow down":
			answer(w, 429, object{"errcode": "M_LIMIT_EXCEEDED", "error": "Too many requests", "retry_after_ms": 30000})
		case r.PathValue("room") != "#team":
			answer(w, 403, object{"errcode": "M_FORBIDDEN", "error": "You are not in the room"})
		case b["msgtype"] != "m.text" || r.PathValue("id") != "call_1":
			answer(w, 400, object{"errcode": "M_BAD_JSON", "error": "bad event"})
		default:
			answer(w, 200, object{"event_id": "$YUwRidLecu:example.com"})
		}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL, func() map[string]any { mu.Lock(); defer mu.Unlock(); return maps.Clone(body) }
}

func TestEachProviderTakesAMessage(t *testing.T) {
	t.Parallel()
	base, last := provider(t)
	for provider, tt := range map[string]struct {
		path, id string
		want     map[string]any
	}{
		"webhook":  {"/hook", "", map[string]any{"text": "done ✓", "subject": "Build", "recipient": "#team"}},
		"slack":    {"", "1503435956.000247", map[string]any{"text": "Build\n\ndone ✓", "channel": "#team"}},
		"telegram": {"", "42", map[string]any{"text": "Build\n\ndone ✓", "chat_id": "#team"}},
		"matrix":   {"", "$YUwRidLecu:example.com", map[string]any{"body": "Build\n\ndone ✓", "msgtype": "m.text"}},
	} {
		channel := func(key string) *message.Channel {
			return &message.Channel{Provider: provider, URL: base + tt.path, Key: fixed(key), Recipients: []string{"#team", "#gone"}}
		}
		sent, err := send(t.Context(), t, channel("key"), map[string]any{"text": "done ✓", "subject": "Build"})
		if err != nil || sent != (message.Sent{Channel: "c", Provider: provider, Recipient: "#team", ID: tt.id}) || !maps.Equal(last(), tt.want) {
			t.Errorf("%s: %+v, %v; it got %v", provider, sent, err, last())
		}
		_, err = send(t.Context(), t, channel("wrong"), map[string]any{"text": "x"})
		if e := toolroom.AsError(err); e.Code != toolroom.CodeUpstreamError || !strings.Contains(e.Hint, "channels.c.key") || strings.Contains(e.Error(), "wrong") {
			t.Errorf("%s, a wrong key: %v", provider, err)
		}
		if provider == "webhook" {
			continue
		}
		if _, err := send(t.Context(), t, channel("key"), map[string]any{"text": "x", "recipient": "#gone"}); err == nil || !strings.Contains(toolroom.AsError(err).Hint, "recipient") {
			t.Errorf("%s, an unknown recipient: %v", provider, err)
		}
		if _, err := send(t.Context(), t, channel("key"), map[string]any{"text": "slow down"}); toolroom.CodeOf(err) != toolroom.CodeRateLimited {
			t.Errorf("%s, too many: %v", provider, err)
		}
		none := channel("")
		none.Key = nil
		_, err = send(t.Context(), t, none, map[string]any{"text": "x"})
		if e := toolroom.AsError(err); e.Code != toolroom.CodeUnsupported || !strings.Contains(e.Hint, "secret://"+provider+"/key") || e.CLIHint != "toolroom secret set "+provider+"/key" {
			t.Errorf("%s without a key: %v", provider, err)
		}
		if missing := message.Pack(map[string]*message.Channel{"c": none}).Check(t.Context()); missing == nil || missing.Hint != toolroom.AsError(err).Hint {
			t.Errorf("%s without a key: the check says %v", provider, missing)
		}
	}
}

// echo is a webhook whose answers name its address, in the way that the text asks for.
func echo(w http.ResponseWriter, r *http.Request) {
	var body struct{ Text string }
	_ = json.NewDecoder(r.Body).Decode(&body)
	path := r.URL.RequestURI()
	switch body.Text {
	case "json":
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": "no such hook: " + path})
	case "slashes": // as PHP writes them
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"path":"`+strings.ReplaceAll(path, "/", `\/`)+`"}`)
	case "parts":
		http.Error(w, "unknown: "+strings.Join(strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune("/?&=", r) }), " "), http.StatusNotFound)
	case "long":
		http.Error(w, strings.Repeat("x", 280)+path, http.StatusNotFound)
	case "later":
		w.Header().Set("Retry-After", path)
		http.Error(w, "wait", http.StatusTooManyRequests)
	case "key":
		http.Error(w, "not "+r.Header.Get("Authorization"), http.StatusNotFound)
	case "id":
		_ = json.NewEncoder(w).Encode(map[string]any{"ts": path})
	case "no HTTP":
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 "+path+"\r\n\r\n")
			_ = conn.Close()
		}
	default:
		http.Error(w, "cannot POST "+path, http.StatusNotFound)
	}
}

// The address of a webhook is often its key.
func TestAnAnswerDoesNotTellTheAddress(t *testing.T) {
	t.Parallel()
	base, _ := provider(t)
	hook := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(hook.Close)
	for _, text := range []string{"plain", "json", "slashes", "parts", "long", "later", "key", "id", "no HTTP"} {
		c := &message.Channel{Provider: "webhook", URL: hook.URL + "/team-hook/B0%2FX/s3cr3tS3gment?token=t0k3n-1", Key: fixed("k3yOfHook")}
		sent, err := send(t.Context(), t, c, map[string]any{"text": text})
		told := sent.ID
		if err != nil {
			e := toolroom.AsError(err)
			told = e.Message + e.Hint
		}
		if told == "" || (text == "id") != (err == nil) {
			t.Errorf("%s: %+v, %v", text, sent, err)
		}
		for _, part := range []string{"team-hook", "s3cr3t", "t0k3n-1", "k3yOfHook"} {
			if strings.Contains(told, part) {
				t.Errorf("%s: the caller reads %q", text, told)
			}
		}
	}
	_, err := send(t.Context(), t, &message.Channel{Provider: "webhook", URL: base + "/gone"}, map[string]any{"text": "x"})
	if err == nil || !strings.Contains(err.Error(), "404 page not found") {
		t.Errorf("the answer is lost: %v", err)
	}
}

func TestMessagesGoOnlyWhereTheConfigPermits(t *testing.T) {
	t.Parallel()
	base, last := provider(t)
	for _, tt := range []struct {
		name    string
		channel message.Channel
		args    map[string]any
		code    toolroom.Code
	}{
		{"another recipient", message.Channel{Provider: "slack", URL: base, Key: fixed("key"), Recipients: []string{"#team"}}, map[string]any{"recipient": "#board"}, toolroom.CodeDenied},
		{"a star as recipient", message.Channel{Provider: "slack", URL: base, Key: fixed("key"), Recipients: []string{"*"}}, map[string]any{"recipient": "*"}, toolroom.CodeDenied},
		{"no recipient", message.Channel{Provider: "slack", URL: base, Key: fixed("key"), Recipients: []string{"*"}}, map[string]any{}, toolroom.CodeInvalidArguments},
		{"an unknown channel", message.Channel{Provider: "slack", URL: base, Key: fixed("key")}, map[string]any{"channel": "d"}, toolroom.CodeNotFound},
		{"a redirect", message.Channel{Provider: "webhook", URL: base + "/moved"}, map[string]any{}, toolroom.CodeUpstreamError},
		{"a page instead of an answer", message.Channel{Provider: "slack", URL: base + "/page?", Key: fixed("key"), Recipients: []string{"#team"}}, map[string]any{}, toolroom.CodeUpstreamError},
		{"a path as room", message.Channel{Provider: "matrix", URL: base, Key: fixed("key"), Recipients: []string{"*"}}, map[string]any{"recipient": "../../login"}, toolroom.CodeUpstreamError},
		{"too long", message.Channel{Provider: "telegram", URL: base, Key: fixed("key"), Recipients: []string{"#team"}}, map[string]any{"text": strings.Repeat("x", 4097)}, toolroom.CodeInvalidArguments},
		{"nobody there", message.Channel{Provider: "telegram", URL: "http://127.0.0.1:1", Key: fixed("s3cret"), Recipients: []string{"#team"}}, map[string]any{}, toolroom.CodeUpstreamUnavailable},
	} {
		if tt.args["text"] == nil {
			tt.args["text"] = "x"
		}
		_, err := send(t.Context(), t, &tt.channel, tt.args)
		if toolroom.CodeOf(err) != tt.code || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if got := last(); got["body"] != "x" { // the room with a path, which the server does not know
		t.Errorf("a server got %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := send(ctx, t, &message.Channel{Provider: "webhook", URL: base + "/slow"}, map[string]any{"text": "wait"})
		done <- err
	}()
	for last()["text"] != "wait" {
		if t.Context().Err() != nil {
			t.FailNow()
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; toolroom.CodeOf(err) != toolroom.CodeCancelled {
		t.Errorf("cancelled: %v", err)
	}
}

// mailServer is a server of RFC 5321 with AUTH PLAIN, and TLS if it has a certificate. It
// returns what it was sent.
func mailServer(t *testing.T, config *tls.Config, fromStart bool) (address string, received chan []string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	received = make(chan []string, 10)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if fromStart {
				conn = tls.Server(conn, config)
			}
			go talk(conn, config, fromStart, received)
		}
	}()
	return l.Addr().String(), received
}

func talk(conn net.Conn, config *tls.Config, private bool, received chan<- []string) {
	defer func() { conn.Close() }()
	in := bufio.NewReader(conn)
	say := func(line string) { _, _ = io.WriteString(conn, line+"\r\n") }
	say("220 mail.test ready")
	var commands []string
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		commands = append(commands, line)
		switch verb, _, _ := strings.Cut(strings.ToUpper(line), " "); verb {
		case "EHLO":
			say("250-mail.test")
			if config != nil && !private {
				say("250-STARTTLS")
			}
			say("250 AUTH PLAIN")
		case "STARTTLS":
			say("220 go")
			conn, private = tls.Server(conn, config), true
			in = bufio.NewReader(conn)
		case "AUTH":
			if line == "AUTH PLAIN "+base64.StdEncoding.EncodeToString([]byte("\x00bot\x00key")) {
				say("235 welcome")
			} else {
				say("535 5.7.8 authentication failed: " + line)
			}
		case "RCPT":
			if strings.Contains(line, "gone") {
				say("550 5.1.1 no such user")
			} else {
				say("250 ok")
			}
		case "DATA":
			say("354 go")
			for {
				part, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if part == ".\r\n" {
					break
				}
				commands = append(commands, strings.TrimRight(part, "\r\n"))
			}
			received <- commands
			say("250 queued")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func TestMail(t *testing.T) {
	t.Parallel()
	web := httptest.NewTLSServer(nil)
	t.Cleanup(web.Close)
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	for _, tt := range []struct {
		name, scheme string
		config       *tls.Config
	}{
		{"plain on this machine", "smtp", nil},
		{"STARTTLS", "smtp", web.TLS},
		{"TLS from the start", "smtps", web.TLS},
	} {
		address, received := mailServer(t, tt.config, tt.scheme == "smtps")
		channel := func(key string) *message.Channel {
			return &message.Channel{Provider: "smtp", URL: tt.scheme + "://" + address, User: "bot", Key: fixed(key), From: "Bot <bot@a.test>", Recipients: []string{"ann@b.test", "*"}, Roots: roots}
		}
		text := "Grüße\n.\nEnd, and a line that is much longer than a line of mail may be " + strings.Repeat("x", 2000)
		sent, err := send(t.Context(), t, channel("key"), map[string]any{"text": text, "subject": "Für dich\r\nBcc: eve@c.test"})
		if err != nil || sent.ID == "" || sent.Recipient != "ann@b.test" {
			t.Fatalf("%s: %+v, %v", tt.name, sent, err)
		}
		lines := <-received
		if tt.config != nil && tt.scheme == "smtp" && !slices.Contains(lines, "STARTTLS") || !slices.Contains(lines, "RCPT TO:<ann@b.test>") {
			t.Errorf("%s: the server got %q", tt.name, lines)
		}
		start := slices.Index(lines, "DATA") + 1
		m, err := mail.ReadMessage(strings.NewReader(strings.Join(lines[start:], "\r\n")))
		if err != nil {
			t.Fatal(err)
		}
		subject, err := (&mime.WordDecoder{}).DecodeHeader(m.Header.Get("Subject"))
		if err != nil || subject != "Für dich  Bcc: eve@c.test" || m.Header.Get("Bcc") != "" || m.Header.Get("Message-ID") != sent.ID {
			t.Errorf("%s: the header is %q, %v", tt.name, m.Header, err)
		}
		body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
		if got := strings.ReplaceAll(strings.ReplaceAll(string(body), "\r\n", "\n"), "\n..\n", "\n.\n"); err != nil || strings.TrimRight(got, "\n") != text {
			t.Errorf("%s: the body is %q, %v", tt.name, got, err)
		}
		for name, args := range map[string]map[string]any{
			"an unknown user":   {"recipient": "gone@b.test"},
			"two addresses":     {"recipient": "ann@b.test, eve@c.test"},
			"a header":          {"recipient": "ann@b.test\r\nBcc: eve@c.test"},
			"a command of SMTP": {"recipient": "ann@b.test>\r\nRCPT TO:<eve@c.test"},
			"a quoted command":  {"recipient": `"ann>,<eve"@b.test`},
			"a quoted space":    {"recipient": `"ann smith"@b.test`},
			"a quoted quote":    {"recipient": `"ann\"smith"@b.test`},
			"a quoted route":    {"recipient": `"@c.test:ann"@b.test`},
			"a quoted list":     {"recipient": `"ann,eve"@b.test`},
		} {
			args["text"] = "x"
			_, err := send(t.Context(), t, channel("key"), args)
			if err == nil {
				t.Errorf("%s: a mail to %s was sent", tt.name, name)
			}
			if strings.HasPrefix(name, "a quoted") && toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
				t.Errorf("%s, %s: %v", tt.name, name, err)
			}
		}
		liar := channel("key")
		liar.From = `"bot>,<eve"@a.test`
		if _, err := send(t.Context(), t, liar, map[string]any{"text": "x"}); toolroom.CodeOf(err) != toolroom.CodeUnsupported {
			t.Errorf("%s, a quoted sender: %v", tt.name, err)
		}
		_, err = send(t.Context(), t, channel("wrong"), map[string]any{"text": "x"})
		if err == nil || !strings.Contains(toolroom.AsError(err).Hint, "user and key") || strings.Contains(err.Error(), base64.StdEncoding.EncodeToString([]byte("\x00bot\x00wrong"))) {
			t.Errorf("%s, a wrong password: %v", tt.name, err)
		}
		if len(received) > 0 {
			t.Errorf("%s: the server got %q", tt.name, <-received)
		}
	}
	address, _ := mailServer(t, web.TLS, false)
	if _, err := send(t.Context(), t, &message.Channel{Provider: "smtp", URL: "smtp://" + address, User: "bot", Key: fixed("key"), From: "bot@a.test", Recipients: []string{"ann@b.test"}}, map[string]any{"text": "x"}); err == nil {
		t.Error("a certificate of an unknown authority was accepted")
	}
}
