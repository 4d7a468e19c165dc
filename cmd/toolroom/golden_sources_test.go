package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// upstream is an MCP server on stdio, written by hand so that its bytes change
// with no SDK.
func upstream() int {
	const (
		capabilities = `{"tools":{},"resources":{},"prompts":{},"completions":{},"logging":{}}`
		object       = `{"type":"object"}`
		text         = `{"type":"object","properties":{"text":{"type":"string","description":"what to give back"}},"required":["text"]}`
		form         = `{"mode":"form","message":"Who are you?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}`
	)
	asked := map[string]json.RawMessage{} // the call that asked, by the id of the question
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
			Params struct {
				Name      string `json:"name"`
				Arguments struct {
					Text string `json:"text"`
				} `json:"arguments"`
				Meta struct {
					Token json.RawMessage `json:"progressToken"`
				} `json:"_meta"`
			} `json:"params"`
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		result := func(format string, args ...any) {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, fmt.Sprintf(format, args...))
		}
		refuse := func(code int, message string) {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`+"\n", m.ID, code, message)
		}
		progress := func(message string) {
			if m.Params.Meta.Token != nil {
				fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"total":2,"message":%q}}`+"\n", m.Params.Meta.Token, message)
			}
		}
		switch m.Method + " " + m.Params.Name {
		case " ": // the answer to a question
			m.ID = asked[string(m.ID)]
			result(`{"content":[{"type":"text","text":%q}]}`, "you answered "+string(m.Result)+string(m.Error))
		case "initialize ":
			result(`{"protocolVersion":"2025-11-25","capabilities":%s,"serverInfo":{"name":"upstream","version":"1"}}`, capabilities)
		case "ping ", "logging/setLevel ":
			result(`{}`)
		case "tools/list ":
			result(`{"tools":[%s]}`, strings.Join([]string{
				`{"name":"echo","title":"Echo","description":"Give a text back.","inputSchema":` + text + `,"annotations":{"readOnlyHint":true}}`,
				`{"name":"sum","description":"Give a structured result.","inputSchema":` + text + `,"outputSchema":{"type":"object","properties":{"length":{"type":"integer"}},"required":["length"]}}`,
				`{"name":"fail","description":"Fail with isError.","inputSchema":` + object + `}`,
				`{"name":"refuse","description":"Fail with an error of the protocol.","inputSchema":` + object + `}`,
				`{"name":"image","description":"Give an image and a link.","inputSchema":` + object + `}`,
				`{"name":"tell","description":"Tell progress and a log line.","inputSchema":` + object + `}`,
				`{"name":"ask","description":"Ask the user.","inputSchema":` + object + `}`,
				`{"name":"long","description":"Give a long text.","inputSchema":` + object + `,"annotations":{"readOnlyHint":true}}`,
				`{"name":"wait","description":"Wait until the call ends.","inputSchema":` + object + `}`,
				`{"name":"write","description":"Write a text somewhere.","inputSchema":` + text + `,"annotations":{"destructiveHint":true}}`,
			}, ","))
		case "tools/call echo", "tools/call write":
			result(`{"content":[{"type":"text","text":%q}]}`, m.Params.Arguments.Text)
		case "tools/call sum":
			result(`{"content":[{"type":"text","text":"counted"}],"structuredContent":{"length":%d}}`, len(m.Params.Arguments.Text))
		case "tools/call fail":
			result(`{"content":[{"type":"text","text":"the well is dry"}],"isError":true}`)
		case "tools/call refuse":
			refuse(-32050, "not today")
		case "tools/call image":
			result(`{"content":[{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"},{"type":"resource_link","uri":"note:1","name":"one"}]}`)
		case "tools/call tell":
			progress("half")
			fmt.Println(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","logger":"upstream","data":"it is late"}}`)
			result(`{"content":[{"type":"text","text":"told"}]}`)
		case "tools/call ask":
			question := fmt.Sprintf(`"q%d"`, len(asked))
			asked[question] = m.ID
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"method":"elicitation/create","params":%s}`+"\n", question, form)
		case "tools/call long":
			var b strings.Builder
			for i := range 4000 {
				fmt.Fprintf(&b, "this is line %d\n", i+1)
			}
			content, err := json.Marshal(b.String())
			if err != nil {
				return 1
			}
			result(`{"content":[{"type":"text","text":%s}]}`, content)
		case "tools/call wait": // no answer
			progress("waiting")
		case "resources/list ":
			result(`{"resources":[{"uri":"note:1","name":"one","title":"The first note","mimeType":"text/plain"}]}`)
		case "resources/templates/list ":
			result(`{"resourceTemplates":[{"uriTemplate":"note:{n}","name":"any","description":"A note by its number"}]}`)
		case "resources/read ":
			result(`{"contents":[{"uri":"note:1","mimeType":"text/plain","text":"buy milk"}]}`)
		case "resources/subscribe ", "resources/unsubscribe ":
			result(`{}`)
		case "prompts/list ":
			result(`{"prompts":[{"name":"greet","description":"Greet somebody","arguments":[{"name":"who","required":true}]}]}`)
		case "prompts/get greet":
			result(`{"messages":[{"role":"user","content":{"type":"text","text":"Say hello."}}]}`)
		case "completion/complete ":
			result(`{"completion":{"values":["ann","bob"],"total":2,"hasMore":false}}`)
		default:
			refuse(-32601, "no such method: "+m.Method)
		}
	}
	return 0
}

// runSay is the program say, for a source of command-line programs.
func runSay() int {
	switch arguments := strings.Join(os.Args[1:], " "); {
	case strings.Contains(arguments, "--help"):
		fmt.Print("Print words.\n\nUsage: say [OPTION]... [WORD]...\n\n  --loud          in capitals\n  --fail          fail with exit code 3\n  --times=NUMBER  how often\n")
	case strings.Contains(arguments, "--fail"):
		fmt.Fprintln(os.Stderr, "say: no voice")
		return 3
	case strings.Contains(arguments, "--loud"):
		fmt.Println(strings.ToUpper(strings.Join(os.Args[2:], " ")))
	default:
		fmt.Println(arguments)
	}
	return 0
}

// serveServices is the service of the HTTP and OpenAPI sources: /status/CODE
// answers with a status, /slow not at all, and so on.
func serveServices(t *testing.T) (address string) {
	mux := http.NewServeMux()
	answer := func(pattern, kind, body string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			fmt.Fprint(w, body)
		})
	}
	answer("/web/forecast", "application/json", `{"city":"Oslo","sky":"clear","big":9007199254740993}`)
	answer("/web/shapeless", "text/plain", "no JSON")
	answer("GET /pets/{id}", "application/json", `{"id":7,"name":"Rex"}`)
	mux.HandleFunc("DELETE /pets/{id}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/web/slow", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // before that the end of the connection is not seen
		<-r.Context().Done()
	})
	for name, status := range map[string]int{"missing": 404, "broken": 500, "away": 503, "busy": 429} {
		mux.HandleFunc("/web/"+name, func(w http.ResponseWriter, _ *http.Request) {
			if status == http.StatusTooManyRequests {
				w.Header().Set("Retry-After", "7")
			}
			http.Error(w, name, status)
		})
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}
