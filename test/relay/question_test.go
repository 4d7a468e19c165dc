package relay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// The upstream's requests and notifications during a call, and the client's responses.
const (
	oddForm     = `{"mode":"form","message":"é<&>\u003c","zeta":{"n":9007199254740993},"requestedSchema":{"type":"object","x-odd":1.50,"properties":{"n":{"type":"integer","x":[9007199254740993]}}},"_meta":{"a/b":1.50}}`
	oddSampling = `{"maxTokens":9007199254740993,"messages":[{"role":"user","content":{"type":"hologram","n":1.50},"odd":[]}],"zeta":"<"}`
	oddFilled   = `{"zeta":[1.50,9007199254740993],"action":"accept","content":{"n":9007199254740993,"s":"<é"},"_meta":{"c/d":"\u003c"}}`
	oddSample   = `{"role":"assistant","model":"m","content":{"type":"hologram","n":9007199254740993},"stopReason":"odd","zeta":1.50}`
	oddFolders  = `{"zeta":1.50,"roots":[{"odd":9007199254740993,"uri":"file:///a","name":"<é\u003c","_meta":{"o/p":1.50}}],"_meta":{"q/r":[9007199254740993]}}`
	oddWhere    = `{"zeta":"<\u003c","_meta":{"s/t":1.50}}`
	// The members beside the questions of a round.
	oddQuestion  = `{"method":"elicitation/create","odd":[1.50,9007199254740993],"params":` + oddForm + `,"alpha":"<"}`
	oddRound     = `{"n":9007199254740993,"b":1.50,"a":"<é"}`
	oddRoundMeta = `"i/j":{"z":1.50,"a":9007199254740993}`
	// The token is the first member, as in the text.
	oddProgress = `"progress":1.50,"total":9007199254740993,"message":"<é","zeta":{"n":9007199254740993},"_meta":{"e/f":1.50}}`
	oddNotice   = `"method":"notifications/acme/odd","params":{"zeta":9007199254740993,"a":["<é\u003c",1.50],"_meta":{"m/n":1.50}}}`
	bareNotice  = `{"jsonrpc":"2.0","method":"acme/bare"}`
	oddLine     = `{"zeta":1.50,"level":"warning","logger":"odd","data":{"n":9007199254740993,"t":"<"},"_meta":{"g/h":2.50}}`
)

// askCaller serves the tool that sends its caller notifications and asks it two questions.
func (u *upstream) askCaller(w http.ResponseWriter, id json.RawMessage, body []byte) {
	var m struct {
		Params struct {
			InputResponses map[string]json.RawMessage `json:"inputResponses"`
			Meta           struct {
				ProgressToken json.RawMessage `json:"progressToken"`
			} `json:"_meta"`
		} `json:"params"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(format string, args ...any) {
		fmt.Fprintf(w, "data: "+format+"\n\n", args...)
		w.(http.Flusher).Flush()
	}
	say(`{"jsonrpc":"2.0","method":"notifications/message","params":%s}`, oddLine)
	say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,%s}`, m.Params.Meta.ProgressToken, oddProgress)
	say(`{"jsonrpc":"2.0",%s`, oddNotice)
	say(`%s`, bareNotice)
	if !u.modern {
		say(`{"jsonrpc":"2.0","id":"form","method":"elicitation/create","params":%s}`, oddForm)
		say(`{"jsonrpc":"2.0","id":"model","method":"sampling/createMessage","params":%s}`, oddSampling)
		say(`{"jsonrpc":"2.0","id":"folders","method":"roots/list","params":%s}`, oddWhere)
		for range 3 {
			<-u.answered
		}
	} else if m.Params.InputResponses == nil {
		say(`{"jsonrpc":"2.0","id":%s,"result":{"zeta":%s,"resultType":"input_required","inputRequests":{"form":%s,"model":{"method":"sampling/createMessage","params":%s},"folders":{"method":"roots/list","params":%s}},"_meta":{%s}}}`,
			id, oddRound, oddQuestion, oddSampling, oddWhere, oddRoundMeta)
		return
	} else {
		u.record("form", m.Params.InputResponses["form"])
		u.record("model", m.Params.InputResponses["model"])
		u.record("folders", m.Params.InputResponses["folders"])
	}
	say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, oddResult)
}

func (u *upstream) record(what string, body []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sent[what] = string(body)
}

// callWithAnswers calls the odd tool with a client that answers questions. It returns all messages
// that the client received.
func (c *client) callWithAnswers(t *testing.T) (received []json.RawMessage) {
	t.Helper()
	answer := map[string]string{"elicitation/create": oddFilled, "sampling/createMessage": oddSample, "roots/list": oddFolders}
	replies := ""
	for round := 1; round <= 3; round++ {
		c.next++
		meta := `"progressToken":"tok"`
		if c.version == modern {
			meta += `,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{` + c.can + `},"io.modelcontextprotocol/logLevel":"debug"`
		}
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"asks","arguments":{},"_meta":{%s}%s}}`, c.next, meta, replies)
		resp := c.send(t, body, "tools/call", "asks")
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		var last struct {
			Result struct {
				ResultType    string                     `json:"resultType"`
				InputRequests map[string]json.RawMessage `json:"inputRequests"`
				RequestState  string                     `json:"requestState"`
			} `json:"result"`
		}
		for lines.Scan() {
			data := bytes.TrimPrefix(lines.Bytes(), []byte("data: "))
			if !bytes.HasPrefix(data, []byte("{")) {
				continue
			}
			data = bytes.Clone(data)
			received = append(received, data)
			var m struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
			}
			if err := json.Unmarshal(data, &m); err != nil {
				t.Fatalf("%v in %s", err, data)
			}
			if answer[m.Method] != "" {
				c.post(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answer[m.Method]), "", "")
			} else if m.ID != nil {
				if err := json.Unmarshal(data, &last); err != nil {
					t.Fatal(err)
				}
			}
		}
		resp.Body.Close()
		if last.Result.ResultType != "input_required" {
			return received
		}
		var responses []string
		for key, q := range last.Result.InputRequests {
			var m struct {
				Method string `json:"method"`
			}
			if err := json.Unmarshal(q, &m); err != nil {
				t.Fatal(err)
			}
			responses = append(responses, fmt.Sprintf("%q:%s", key, answer[m.Method]))
		}
		replies = fmt.Sprintf(`,"inputResponses":{%s},"requestState":%q`, strings.Join(responses, ","), last.Result.RequestState)
	}
	t.Fatalf("the server keeps asking: %s", received)
	return nil
}

// TestQuestionsAndNotificationsDuringACallAreRelayedByteForByte tests servers of revision
// 2026-07-28 and of an older one, each with clients of both.
func TestQuestionsAndNotificationsDuringACallAreRelayedByteForByte(t *testing.T) {
	t.Parallel()
	for _, u := range []bool{true, false} {
		up := newUpstream(t, u)
		url := serve(t, up)
		for _, version := range []string{modern, legacy} {
			t.Run(fmt.Sprintf("server modern=%t, client %s", u, version), func(t *testing.T) {
				c := &client{url: url, version: version, can: `"elicitation":{},"sampling":{},"roots":{}`}
				c.open(t)
				if version == legacy {
					c.ask(t, "logging/setLevel", "", `"level":"debug"`)
				}
				received := c.callWithAnswers(t)
				all := string(bytes.Join(rawBytes(received), []byte("\n")))
				wanted := map[string]string{
					"the form": `"params":` + oddForm, "the sampling": `"params":` + oddSampling, "where": `"params":` + oddWhere,
					"the log line": `"params":` + oddLine, "the unknown notification": `{"jsonrpc":"2.0",` + oddNotice, "the one that says nothing": bareNotice,
					"the progress": `"params":{"progressToken":"tok",` + oddProgress,
				}
				if u && version == modern {
					wanted["the question"], wanted["the round"], wanted["the round's metadata"] = `"form":`+oddQuestion, `"zeta":`+oddRound, oddRoundMeta
				}
				for what, want := range wanted {
					if !strings.Contains(all, want) {
						t.Errorf("%s is not\n%s\nin\n%s", what, want, all)
					}
				}
				if diff := cmp.Diff(map[string]string{"form": oddFilled, "model": oddSample, "folders": oddFolders}, map[string]string{"form": up.last("form"), "model": up.last("model"), "folders": up.last("folders")}); diff != "" {
					t.Errorf("the answers (-responses +received)\n%s", diff)
				}
			})
		}
	}
}

func rawBytes(messages []json.RawMessage) [][]byte {
	all := make([][]byte, len(messages))
	for i, m := range messages {
		all[i] = m
	}
	return all
}

// Only revision 2025-03-26 has batches.
func TestABatchIsRelayedByteForByte(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, false)
	c := &client{url: serve(t, up), version: "2025-03-26"}
	c.open(t)
	const arguments = `{"z":9007199254740993,"a":"\u003c<é"}`
	resp := c.send(t, `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"odd","arguments":`+arguments+`,"_meta":{`+metaMembers+`},`+extraMembers+`}},`+
		`{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"ask",`+extraMembers+`,"_meta":{`+metaMembers+`}}}]`, "", "")
	defer resp.Body.Close()
	var answers [][]byte
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: {")); ok {
			answers = append(answers, append([]byte("{"), data...))
		}
	}
	if len(answers) != 2 {
		t.Fatalf("the answers are %s", answers)
	}
	for _, method := range []string{"tools/call", "prompts/get"} {
		if sent := up.last(method); !strings.Contains(sent, metaMembers) || !strings.Contains(sent, extraMembers) {
			t.Errorf("what the client says in %s did not come: %s\nanswers: %s", method, sent, answers)
		}
	}
	if sent := up.last("tools/call"); !strings.Contains(sent, `"arguments":`+arguments) {
		t.Errorf("the arguments came as %s", sent)
	}
	for _, a := range answers {
		members, err := jsonx.Members(a)
		if err != nil {
			t.Fatal(err)
		}
		want := oddResult
		if strings.Contains(string(a), "messages") {
			want = oddMessages
		}
		for _, m := range members {
			if m.Name == "result" && withoutAdditions(t, m.Value) != want {
				t.Errorf("%s", cmp.Diff(want, withoutAdditions(t, m.Value)))
			}
		}
	}
}
