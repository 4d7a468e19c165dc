package enginetest

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/bridge"
)

// nodeStream is JavaScript by which a program on Node speaks the bridge itself: its writes to the
// server pass through heard, and said makes a call with a token in hex.
const nodeStream = `const fs = require('fs'), write = fs.writeSync;
let heard = () => {};
fs.writeSync = (fd, frame, at) => { const n = write(fd, frame, at); heard(frame); return n };
const text = (s) => [0x60 + s.length, ...Buffer.from(s)];
const said = (token) => {
	const body = [0x84, 10, 99, 0x50, ...Buffer.from(token, 'hex'), 0xa2, ...text('tool'), ...text('echo:value'), ...text('arguments'), 0xa1, ...text('value'), 1];
	write(STREAM, Buffer.from([0, 0, 0, body.length, ...body]));
};
const tokenOf = (frame) => { const at = frame.indexOf(0x50, 6); return frame.subarray(at + 1, at + 17).toString('hex') };
`

// tokenPrograms are programs with access to the stream. One returns its own token, in
// hex; one makes a call with a given token; one ends its run and then makes a call.
var tokenPrograms = map[string]struct{ steal, use, late string }{
	"python": {
		steal: cpythonBridge + "b.token.hex()",
		use:   cpythonBridge + "b.token = bytes.fromhex(token)\nb.ask(10, {'tool': 'echo:value', 'arguments': {'value': 1}})",
		late:  cpythonBridge + "b.send(30, {'value': 1})\nb.send(10, {'tool': 'echo:value', 'arguments': {'value': 1}}, 99)\nwhile True: pass",
	},
	"javascript": {
		steal: nodeStream + "let mine; heard = (frame) => { mine ??= tokenOf(frame) };\nprint('x');\nreturn mine",
		use:   nodeStream + "said(token);\nawait new Promise((done) => setTimeout(done, 200)); return 'on'",
		late:  nodeStream + "heard = (frame) => { if (frame[5] === 0x18 && frame[6] === 30) said(tokenOf(frame)) };\nreturn 1",
	},
	"wasm": {steal: "steal", use: "use", late: "late"},
}

// Tokens tries, with the real token of a run, to call a tool when the run is over:
// after its own end, and from the next run. It needs Options.Stream.
func Tokens(t *testing.T, o Options) {
	s := newSuite(t, o)
	for _, language := range s.languages() {
		t.Run(language+": a token of a run that is over is of no use", func(t *testing.T) { s.reuseToken(t, language) })
		t.Run(language+": a call after the end is not heard", func(t *testing.T) { s.afterDone(t, language) })
	}
}

// runWithToken runs one of tokenPrograms.
func (s *suite) runWithToken(t *testing.T, language, source, token string) (*callHandler, bridge.Value, bool) {
	t.Helper()
	j := s.job(language, strings.ReplaceAll(source, "STREAM", fmt.Sprint(s.options.Stream)))
	if token != "" {
		j.Program.Inputs = bridge.Map{{Key: "token", Value: token}}
	}
	if language == "wasm" && token != "" {
		j.Program.Command = append(j.Program.Command, token)
	}
	j.Program.Limits.Wall = 10_000
	r := newCallHandler()
	result, err := s.engine.Run(t.Context(), j, r)
	if err != nil || result.Outcome.Failure != nil {
		return r, nil, false
	}
	return r, result.Outcome.Value, true
}

// reuseToken makes a call with the token of an earlier run.
func (s *suite) reuseToken(t *testing.T, language string) {
	programs := tokenPrograms[language]
	_, value, _ := s.runWithToken(t, language, programs.steal, "")
	token, _ := value.(string)
	if raw, err := hex.DecodeString(token); err != nil || len(raw) != 16 {
		t.Fatalf("the run did not give its token: %v", value)
	}
	r, _, well := s.runWithToken(t, language, programs.use, token)
	if well {
		t.Error("a run that broke the protocol ended well")
	}
	s.checkNotCalled(t, language, r)
}

// afterDone makes a call after the end of a run, with the run's own token.
func (s *suite) afterDone(t *testing.T, language string) {
	for range s.rounds(5) {
		r, _, _ := s.runWithToken(t, language, tokenPrograms[language].late, "")
		s.checkNotCalled(t, language, r)
	}
}

func (s *suite) checkNotCalled(t *testing.T, language string, r *callHandler) {
	t.Helper()
	s.checkStillWorks(t, language)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.calls) > 0 {
		t.Errorf("the handler answered %v", r.calls)
	}
}
