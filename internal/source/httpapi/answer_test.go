package httpapi_test

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/source/httpapi"
)

// answered calls one tool of a service that answers by handler.
func answered(t *testing.T, tool httpapi.Tool, handler http.HandlerFunc) (string, []toolroom.Content, toolroom.Effects, error) {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	tool.Name = "t"
	s := open(t, httpapi.Config{
		BaseURL:     server.URL,
		Headers:     map[string]string{"X-Api-Key": "secret://svc/token"},
		MaxResponse: 1 << 20,
		Tools:       []httpapi.Tool{tool},
	}, httpapi.Options{Resolve: resolve})
	output, err := call(t, s, "t", `{}`, "")
	return string(output.Value), output.Content, output.Effects, err
}

func respond(status int, contentType, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		// An empty value keeps net/http from guessing one.
		w.Header()["Content-Type"] = nil
		if contentType != "" {
			w.Header().Set("Content-Type", contentType)
		}
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	}
}

func TestAnswersBecomeValuesAndContent(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		tool    httpapi.Tool
		handler http.HandlerFunc
		value   string
		content []toolroom.Content
	}{
		{
			name:    "JSON stays byte for byte",
			handler: respond(200, "application/json; charset=utf-8", ` {"b": 12345678901234567890, "a": 1.0} `),
			value:   `{"b": 12345678901234567890, "a": 1.0}`,
		},
		{
			name:    "a kind of JSON is JSON",
			handler: respond(200, "application/vnd.api+json", `[1]`),
			value:   `[1]`,
		},
		{
			name:    "JSON without a content type is seen",
			handler: respond(200, "", `{"a":1}`),
			value:   `{"a":1}`,
		},
		{
			name:    "text is a string and content",
			handler: respond(200, "text/plain", `say "hi"`),
			value:   `"say \"hi\""`,
			content: []toolroom.Content{toolroom.TextContent(`say "hi"`)},
		},
		{
			name:    "Latin-1 is text",
			handler: respond(200, "text/plain; charset=ISO-8859-1", "caf\xe9"),
			value:   `"café"`,
			content: []toolroom.Content{toolroom.TextContent("café")},
		},
		{
			name:    "an image is content",
			handler: respond(200, "image/png", "\x89PNG"),
			content: []toolroom.Content{{Type: toolroom.ContentImage, MIMEType: "image/png", Data: []byte("\x89PNG")}},
		},
		{
			name:    "audio is content",
			handler: respond(200, "audio/wav", "RIFF"),
			content: []toolroom.Content{{Type: toolroom.ContentAudio, MIMEType: "audio/wav", Data: []byte("RIFF")}},
		},
		{name: "no body is no value", handler: respond(204, "", "")},
		{
			name:    "a pointer picks the result",
			tool:    httpapi.Tool{Result: "/data/0/a~1b"},
			handler: respond(200, "application/json", `{"data":[{"a/b":123456789012345678901}]}`),
			value:   `123456789012345678901`,
		},
		{
			name:    "an expression makes the value of what was picked",
			tool:    httpapi.Tool{Result: "/data", Map: `map(value, .id)`},
			handler: respond(200, "application/json", `{"data":[{"id":123456789012345678901},{"id":2}]}`),
			value:   `[123456789012345678901,2]`,
		},
		{
			name:    "the expression sees the arguments of the call",
			tool:    httpapi.Tool{Map: `{got: value.a, asked: keys(args)}`},
			handler: respond(200, "application/json", `{"a":1}`),
			value:   `{"asked":[],"got":1}`,
		},
		{
			name:    "an empty answer stays empty if the expression needs a value",
			tool:    httpapi.Tool{Map: `map(value, .id)`},
			handler: respond(204, "", ""),
		},
		{
			name:    "an empty answer has the value of an expression without it",
			tool:    httpapi.Tool{Map: `{deleted: true, with: args}`},
			handler: respond(204, "", ""),
			value:   `{"deleted":true,"with":{}}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			value, content, _, err := answered(t, test.tool, test.handler)
			if err != nil {
				t.Fatal(err)
			}
			if value != test.value {
				t.Errorf("value: got %s, want %s", value, test.value)
			}
			if diff := cmp.Diff(test.content, content); diff != "" {
				t.Errorf("content (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOtherBytesAreAResourceWithoutTheQuery(t *testing.T) {
	t.Parallel()
	tool := httpapi.Tool{Method: "GET", Query: map[string]string{"key": "secret://svc/token"}}
	_, content, _, err := answered(t, tool, respond(200, "application/zip", "PK\x03\x04\x00"))
	if err != nil {
		t.Fatal(err)
	}
	if len(content) != 1 || content[0].Type != toolroom.ContentResource || string(content[0].Data) != "PK\x03\x04\x00" {
		t.Fatalf("got %+v", content)
	}
	if !strings.HasSuffix(content[0].URI, "/t") {
		t.Errorf("the address %s should end with the path", content[0].URI)
	}
}

func TestEachFailureHasItsOwnError(t *testing.T) {
	t.Parallel()
	promised := httpapi.Tool{OutputSchema: map[string]any{"type": "object"}}
	for _, test := range []struct {
		name      string
		tool      httpapi.Tool
		handler   http.HandlerFunc
		code      toolroom.Code
		retryable bool
		effects   toolroom.Effects
		message   string
		hint      string
	}{
		{
			name: "404", handler: respond(404, "text/plain", "no such item"),
			code: toolroom.CodeUpstreamError, effects: toolroom.EffectsNone, message: "answered 404 Not Found: no such item", hint: "the path was /t: check",
		},
		{
			name: "a page", handler: respond(404, "text/html", "<!DOCTYPE html>\n<html><head>\n<title>Nothing &amp; nobody</title></head><body>long"),
			code: toolroom.CodeUpstreamError, effects: toolroom.EffectsNone, message: "answered 404 Not Found: Nothing & nobody\n",
		},
		{
			name: "401 does not leak the key that the service repeats", handler: respond(401, "text/plain", "bad key s3cr3t-t0ken"),
			code: toolroom.CodeUpstreamError, effects: toolroom.EffectsNone, message: "bad key [secret]",
		},
		{name: "408", handler: respond(408, "", ""), code: toolroom.CodeUpstreamError, retryable: true, effects: toolroom.EffectsUnknown},
		{name: "409", handler: respond(409, "", ""), code: toolroom.CodeUpstreamError, effects: toolroom.EffectsUnknown},
		{name: "425", handler: respond(425, "", ""), code: toolroom.CodeUpstreamError, retryable: true, effects: toolroom.EffectsUnknown},
		{name: "429", handler: respond(429, "", "", "Retry-After", "7"), code: toolroom.CodeRateLimited, retryable: true, effects: toolroom.EffectsNone},
		{name: "500", handler: respond(500, "", "boom"), code: toolroom.CodeUpstreamError, effects: toolroom.EffectsUnknown, message: "boom"},
		{name: "502", handler: respond(502, "", ""), code: toolroom.CodeUpstreamUnavailable, retryable: true, effects: toolroom.EffectsUnknown},
		{name: "503", handler: respond(503, "", ""), code: toolroom.CodeUpstreamUnavailable, retryable: true, effects: toolroom.EffectsUnknown},
		{name: "504", handler: respond(504, "", ""), code: toolroom.CodeUpstreamUnavailable, retryable: true, effects: toolroom.EffectsUnknown},
		{
			name: "a page where JSON was promised", tool: promised, handler: respond(200, "text/html", "<html>\n<body>Sign in"),
			code: toolroom.CodeInvalidOutput, effects: toolroom.EffectsDone, message: `text/html, where JSON was promised; it begins "<html> <body>Sign in"`,
		},
		{
			name: "JSON that is broken off", handler: respond(200, "application/json", `{"a":`),
			code: toolroom.CodeInvalidOutput, effects: toolroom.EffectsDone, message: "which is not JSON",
		},
		{
			name: "an answer that cannot be mapped", tool: httpapi.Tool{Map: "value.a.b"}, handler: respond(200, "application/json", `{}`),
			code: toolroom.CodeInvalidOutput, effects: toolroom.EffectsDone,
		},
		{
			name: "a result that is not there", tool: httpapi.Tool{Result: "/data/x"}, handler: respond(200, "application/json", `{"data":{}}`),
			code: toolroom.CodeInvalidOutput, effects: toolroom.EffectsDone, message: "no value at /data/x",
		},
		{
			name: "a flood", handler: func(w http.ResponseWriter, _ *http.Request) {
				for {
					if _, err := w.Write(make([]byte, 1<<16)); err != nil {
						return
					}
				}
			},
			code: toolroom.CodeResourceLimit, effects: toolroom.EffectsDone, message: "larger than 1048576 bytes",
		},
		{
			name: "a compressed flood", handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				for range 64 {
					_, _ = z.Write(make([]byte, 1<<16))
				}
				_ = z.Close()
			},
			code: toolroom.CodeResourceLimit, effects: toolroom.EffectsDone, message: "larger than 1048576 bytes",
		},
		{
			name: "a slow service", tool: httpapi.Tool{Timeout: 50 * time.Millisecond}, handler: func(_ http.ResponseWriter, r *http.Request) {
				buf := make([]byte, 16)
				_, _ = r.Body.Read(buf)
				<-r.Context().Done()
			},
			code: toolroom.CodeTimeout, effects: toolroom.EffectsUnknown, message: "no complete response within 50ms",
		},
		{
			name: "a service that hangs up", handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			code: toolroom.CodeUpstreamUnavailable, retryable: true, effects: toolroom.EffectsUnknown, message: "broke before the response",
		},
		{
			name: "a service that hangs up in mid-answer", handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100")
				_, _ = fmt.Fprint(w, "{")
			},
			code: toolroom.CodeUpstreamUnavailable, retryable: true, effects: toolroom.EffectsUnknown,
		},
		{
			name: "a redirect to another host", handler: respond(302, "", "", "Location", "http://192.0.2.1/x"),
			code: toolroom.CodeUpstreamError, effects: toolroom.EffectsUnknown, message: "redirects to http://192.0.2.1",
		},
		{
			name: "a redirect in a circle", handler: respond(302, "", "", "Location", "/t"),
			code: toolroom.CodeUpstreamError, effects: toolroom.EffectsUnknown, message: "redirects more than 5 times",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, _, effects, err := answered(t, test.tool, test.handler)
			var typed *toolroom.Error
			if !errors.As(err, &typed) {
				t.Fatalf("got %v, want a typed error", err)
			}
			if typed.Code != test.code || typed.Retryable != test.retryable || effects != test.effects {
				t.Errorf("got %s, retryable %v, effects %s; want %s, %v, %s (%v)",
					typed.Code, typed.Retryable, effects, test.code, test.retryable, test.effects, err)
			}
			if !strings.Contains(typed.Message+"\n", test.message) {
				t.Errorf("message %q lacks %q", typed.Message, test.message)
			}
			if !strings.Contains(typed.Hint, test.hint) {
				t.Errorf("hint %q lacks %q", typed.Hint, test.hint)
			}
			if strings.Contains(fmt.Sprintf("%v %v", typed, typed.Details), "s3cr3t") {
				t.Errorf("the secret is in %v %v", typed, typed.Details)
			}
		})
	}
}

func TestRetryAfterIsReadInSecondsAndAsADate(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"7", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)} {
		_, _, _, err := answered(t, httpapi.Tool{}, respond(503, "", "", "Retry-After", value))
		wait, ok := toolroom.AsError(err).Details["retry_after_seconds"].(int64)
		if !ok || wait < 7 || wait > 3600 {
			t.Errorf("%s: got %v", value, toolroom.AsError(err).Details)
		}
	}
}

func TestAServiceThatIsNotThereIsUnavailable(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing := "http://" + listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	plain := httptest.NewServer(respond(200, "", ""))
	defer plain.Close()
	untrusted := httptest.NewUnstartedServer(respond(200, "", ""))
	untrusted.Config.ErrorLog = discardLog()
	untrusted.StartTLS()
	defer untrusted.Close()

	for name, test := range map[string]struct{ address, message string }{
		"refused":               {refusing, "the connection was refused"},
		"no such host":          {"http://no-such-host.invalid", "the host name cannot be resolved"},
		"no TLS":                {strings.Replace(plain.URL, "http:", "https:", 1), "does not speak TLS"},
		"untrusted certificate": {untrusted.URL, "certificate is not trusted"},
	} {
		s := open(t, httpapi.Config{BaseURL: test.address, Tools: []httpapi.Tool{{Name: "t"}}}, httpapi.Options{})
		output, err := call(t, s, "t", `{}`, "")
		if toolroom.CodeOf(err) != toolroom.CodeUpstreamUnavailable || !strings.Contains(err.Error(), test.message) {
			t.Errorf("%s: got %v (%s), want upstream_unavailable: %s", name, err, toolroom.CodeOf(err), test.message)
		}
		if output.Effects != toolroom.EffectsNone || !output.Unsent {
			t.Errorf("%s: effects are %s, unsent is %v, but nothing was sent", name, output.Effects, output.Unsent)
		}
	}
	s := open(t, httpapi.Config{BaseURL: plain.URL, Tools: []httpapi.Tool{{Name: "t", Result: "/x"}}}, httpapi.Options{})
	if output, err := call(t, s, "t", `{}`, ""); err == nil || output.Unsent {
		t.Errorf("what was sent is said to be unsent: %v", err)
	}
}

func TestGarbageInsteadOfHTTPIsUnavailable(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = http.ReadRequest(bufio.NewReader(conn))
		_, _ = fmt.Fprint(conn, "\x00\x01 this is not HTTP\r\n\r\n")
	}()
	s := open(t, httpapi.Config{BaseURL: "http://" + listener.Addr().String(), Tools: []httpapi.Tool{{Name: "t"}}}, httpapi.Options{})
	_, err = call(t, s, "t", `{}`, "")
	if toolroom.CodeOf(err) != toolroom.CodeUpstreamUnavailable {
		t.Errorf("got %v (%s), want upstream_unavailable", err, toolroom.CodeOf(err))
	}
}

func TestRedirectsNeverCarryCredentialsToAnotherHost(t *testing.T) {
	t.Parallel()
	var got http.Header
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		writeJSON(w, "moved")
	}))
	defer other.Close()
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/start" {
			http.Redirect(w, r, "/here", http.StatusTemporaryRedirect)
			return
		}
		if r.Header.Get("X-Api-Key") == "" {
			t.Error("a redirect to the same host lost the key")
		}
		http.Redirect(w, r, other.URL+"/there", http.StatusTemporaryRedirect)
	}))
	defer first.Close()

	config := httpapi.Config{
		BaseURL: first.URL,
		Headers: map[string]string{"Authorization": "Bearer secret://svc/token", "X-Api-Key": "secret://svc/token"},
		Tools:   []httpapi.Tool{{Name: "start", Method: "GET", Query: map[string]string{"key": "secret://svc/token"}}},
	}
	s := open(t, config, httpapi.Options{Resolve: resolve})
	if _, err := call(t, s, "start", `{}`, ""); err == nil || got != nil {
		t.Fatalf("the other host was asked though the config does not allow it: %v", err)
	}

	config.RedirectHosts = []string{"127.0.0.1"}
	s = open(t, config, httpapi.Options{Resolve: resolve})
	if _, err := call(t, s, "start", `{}`, ""); toolroom.CodeOf(err) != toolroom.CodeDenied || got != nil {
		t.Fatalf("another service of this machine was asked though egress does not allow it: %v", err)
	}

	guard, err := egress.New(egress.Policy{Allow: []string{"loopback"}})
	if err != nil {
		t.Fatal(err)
	}
	s = open(t, config, httpapi.Options{Resolve: resolve, Egress: guard})
	output, err := call(t, s, "start", `{}`, "")
	if err != nil || string(output.Value) != `"moved"` {
		t.Fatalf("got %+v, %v", output, err)
	}
	for name, values := range got {
		if strings.Contains(strings.Join(values, " "), "s3cr3t") {
			t.Errorf("%s carried the secret to another host", name)
		}
	}
}

func TestAFailureOfTheFormRunHasItsReason(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ answer, text string }{
		{`{"success": false, "error": "it broke"}`, "it broke"},
		{`{"success": false, "result": {"got": {}}, "error": "it broke"}`, "it broke"},
		{`{"success": false, "result": {"got": {}}, "error": {"code": 7}}`, `{"code": 7}`},
		{`{"success": false, "result": "it broke", "error": null}`, "it broke"},
		{`{"success": false}`, "the service reports failure and gives no reason"},
		{`{"success": false, "result": null, "error": null}`, "the service reports failure and gives no reason"},
	} {
		server := httptest.NewServer(respond(200, "application/json", test.answer))
		defer server.Close()
		s := open(t, httpapi.Config{BaseURL: server.URL, Form: httpapi.FormRun, Tools: []httpapi.Tool{{Name: "t"}}}, httpapi.Options{})
		output, err := call(t, s, "t", `{}`, "")
		if err != nil || !output.Failed {
			t.Errorf("%s: failed %v, error %v", test.answer, output.Failed, err)
		} else if diff := cmp.Diff([]toolroom.Content{toolroom.TextContent(test.text)}, output.Content); diff != "" {
			t.Errorf("%s:\n%s", test.answer, diff)
		}
	}
}
