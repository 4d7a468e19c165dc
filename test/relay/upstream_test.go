package relay

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// upstream is an MCP server of one revision without an SDK: it sends messages that no SDK
// sends, and records the requests that it gets.
type upstream struct {
	*httptest.Server
	modern bool

	mu     sync.Mutex
	sent   map[string]string // body of the last request by method
	counts map[string]int    // number of requests by method
	from   map[string]string // session of the last request by method

	began map[string]string // the request that opened each session

	answered chan struct{} // receives one value for each response of its client
}

// The upstream's messages. Each has unknown members at every level, numbers that no float
// can represent, and members in no order.
const (
	oddTool       = `{"title":"Odd","name":"odd","zeta":{"b":1,"a":[9007199254740993]},"inputSchema":{"type":"object","x-future":{"q":1.50},"properties":{"z":{"type":"integer","default":9007199254740993},"a":{"type":"string","x-unknown":[1]}}},"outputSchema":{"type":"object","x-out":1},"icons":[{"src":"data:,","theme":"odd"}],"annotations":{"readOnlyHint":true,"oddHint":"yes"},"_meta":{"ui":{"resourceUri":"ui://x"},"n":9007199254740993}}`
	pagesTool     = `{"name":"refresh","inputSchema":{"type":"object"},"_meta":{"ui":{"visibility":["app"]}}}`
	oddResult     = `{"zeta":{"z":1,"a":9007199254740993},"_meta":{"z/m":[9007199254740993],"a":1.50},"content":[{"type":"hologram","beam":[1e400,2.50],"n":9007199254740993},{"type":"text","text":"é<&>\u003c","annotations":{"x":1},"later":null},{"type":"resource","resource":{"uri":"x:y","text":"t","odd":{}},"more":1}],"structuredContent":{"n":9007199254740993,"f":1.50,"b":{"z":1,"a":2}},"alpha":[]}`
	oddFailure    = `{"content":[{"type":"text","text":"it broke","odd":1}],"isError":true,"reason":{"n":9007199254740993}}`
	oddError      = `{"code":-32050,"message":"not <today>","data":{"z":9007199254740993,"a":[1.50,{}]},"zeta":{"n":9007199254740993,"t":"<é\u003c"}}`
	oddResource   = `{"uri":"odd:1","odd":{"n":9007199254740993},"name":"one","icons":[],"_meta":{"k":1.50}}`
	oddTemplate   = `{"uriTemplate":"odd:{n}","later":[1.50],"name":"any"}`
	oddContents   = `{"contents":[{"uri":"odd:1","text":"é","odd":{"n":9007199254740993}}],"_meta":{"b":1.50,"a":"x"},"zeta":1,"alpha":2.50}`
	oddPrompt     = `{"name":"ask","odd":9007199254740993,"arguments":[{"name":"who","shape":{"z":1,"a":2}}]}`
	oddCompletion = `{"zeta":1.50,"completion":{"values":["é<"],"total":9007199254740993,"odd":[1.50],"hasMore":false},"_meta":{"k/l":1.50}}`
	oddMessages   = `{"messages":[{"role":"user","content":{"type":"hologram","n":9007199254740993},"odd":[]}],"description":"d","zeta":1.50}`
)

func newUpstream(t *testing.T, modern bool) *upstream {
	u := &upstream{modern: modern, sent: map[string]string{}, counts: map[string]int{}, from: map[string]string{}, began: map[string]string{}, answered: make(chan struct{}, 16)}
	u.Server = httptest.NewServer(http.HandlerFunc(u.serve))
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) last(method string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.sent[method]
}

// sessionRequest returns the request that opened the session of the last request.
func (u *upstream) sessionRequest(method string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.began[u.from[method]]
}

func (u *upstream) count(method string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.counts[method]
}

func (u *upstream) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Result json.RawMessage `json:"result"`
		Params struct {
			Name string `json:"name"`
		} `json:"params"`
	}
	if json.Unmarshal(body, &m) != nil || m.ID == nil || m.Method == "" {
		if m.Result != nil {
			u.record(strings.Trim(string(m.ID), `"`), m.Result)
			u.answered <- struct{}{}
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	u.mu.Lock()
	u.sent[m.Method] = string(body)
	u.counts[m.Method]++
	session := r.Header.Get("Mcp-Session-Id")
	u.from[m.Method] = session
	if m.Method == "initialize" {
		session = fmt.Sprint(u.counts[m.Method])
		u.began[session] = string(body)
	}
	u.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	answer := func(member, value string) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%q:%s}`, m.ID, member, value)
	}
	const capabilities = `{"tools":{},"resources":{},"prompts":{},"completions":{},"logging":{}}`
	switch m.Method {
	case "server/discover":
		if !u.modern {
			answer("error", `{"code":-32601,"message":"no such method"}`)
			return
		}
		answer("result", `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+capabilities+`,"ttlMs":0,"cacheScope":"private"}`)
	case "initialize":
		w.Header().Set("Mcp-Session-Id", session)
		answer("result", `{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"serverInfo":{"name":"odd","version":"1"}}`)
	case "tools/list":
		answer("result", `{"tools":[`+oddTool+`,{"name":"fails","inputSchema":{"type":"object"}},{"name":"refuses","inputSchema":{"type":"object"}},{"name":"asks","inputSchema":{"type":"object"}},{"name":"leaves","inputSchema":{"type":"object"}},`+pagesTool+`]}`)
	case "tools/call":
		switch m.Params.Name {
		case "asks":
			u.askCaller(w, m.ID, body)
		case "leaves":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: close\nretry: 10\n\n")
		case "fails":
			answer("result", oddFailure)
		case "refuses":
			answer("error", oddError)
		default:
			answer("result", oddResult)
		}
	case "resources/list":
		answer("result", `{"resources":[`+oddResource+`]}`)
	case "resources/templates/list":
		answer("result", `{"resourceTemplates":[`+oddTemplate+`]}`)
	case "resources/read":
		answer("result", oddContents)
	case "prompts/list":
		answer("result", `{"prompts":[`+oddPrompt+`]}`)
	case "prompts/get":
		answer("result", oddMessages)
	case "completion/complete":
		answer("result", oddCompletion)
	default:
		answer("error", `{"code":-32601,"message":"no such method"}`)
	}
}
