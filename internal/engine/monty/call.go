package monty

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"math"
	"math/big"
	mathrand "math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/monty/program"
	"github.com/toolroom/toolroom/internal/engine/monty/protocol"
)

// lookUp answers the lookup of a global name, or of a member of one of our objects.
func (r *run) lookUp(e protocol.Event) protocol.Request {
	if e.Object != (protocol.ObjectID{}) {
		return r.lookUpMember(e)
	}
	if s := r.names.root.children[e.Name]; s != nil {
		if s.tool != nil {
			return protocol.ResumeLookup(protocol.Answer{Value: r.names.functionValue(s.tool)})
		}
		return protocol.ResumeLookup(protocol.Answer{Value: r.names.namespaceObject(s)})
	}
	switch {
	case builtinFunctions[e.Name]:
		return protocol.ResumeLookup(protocol.Answer{Value: protocol.Function{Name: e.Name}})
	case e.Name == "artifacts" || e.Name == "results":
		return protocol.ResumeLookup(protocol.Answer{Value: protocol.Instance{ID: r.names.addObject(storeObject(e.Name)), Class: e.Name}})
	}
	if reason := r.p.Withheld.Text(e.Name); reason != "" {
		return protocol.ResumeLookup(raise("NameError", "name '%s' is not defined. %s", e.Name, reason))
	}
	return protocol.Undefined()
}

func (r *run) lookUpMember(e protocol.Event) protocol.Request {
	s, ok := r.names.objects[e.Object].(*namespace)
	if !ok || strings.HasPrefix(e.Name, "__") || len(e.Name) > toolroom.MaxIDPart { // no tool has a longer name

		return protocol.Undefined()
	}
	if reason := r.p.Withheld.Text(strings.Join(append(s.path[:len(s.path):len(s.path)], e.Name), ".")); reason != "" {
		return protocol.ResumeLookup(raise("AttributeError", "%s", reason))
	}
	tool, below := r.names.member(s, e.Name)
	if tool != nil {
		return protocol.ResumeLookup(protocol.Answer{Value: r.names.functionValue(tool)})
	}
	return protocol.ResumeLookup(protocol.Answer{Value: r.names.namespaceObject(below)})
}

func raise(class, format string, args ...any) protocol.Answer {
	return protocol.Answer{Raise: &protocol.Exception{Type: class, Message: fmt.Sprintf(format, args...)}}
}

// hostCall is a call of the program that the call handler serves. If convert is nil, the
// result is converted by [run.toProgram].
type hostCall struct {
	do      func() (bridge.Value, error)
	convert func(bridge.Value) any
}

// handleCall returns the answer to a call. A program that awaits gets a future, which is
// resolved later.
func (r *run) handleCall(e protocol.Event) (protocol.Request, error) {
	r.callBytes += int64(e.Bytes)
	if err := r.checkBytes(); err != nil {
		return nil, err
	}
	q, now := r.parseCall(e)
	if err := r.checkBytes(); err != nil { // because of values that the arguments repeat
		return nil, err
	}
	if q == nil {
		return protocol.ResumeCall(e.Call, now), nil
	}
	r.callCount++
	if r.callCount > r.p.Limits.Calls+bridge.MaxExcessRequests {
		return nil, bridge.OverLimit("calls", "the program went on to ask long after its limit of %d calls", r.p.Limits.Calls)
	}
	ask := q.do
	if r.callCount > r.p.Limits.Calls {
		ask = func() (bridge.Value, error) { return nil, bridge.OverCalls(r.p.Limits.Calls) }
	}
	if !r.ready.Awaits {
		v, err := ask()
		return protocol.ResumeCall(e.Call, r.toAnswer(q, v, err)), nil
	}
	r.answerLater(e.Call, false, func() func() protocol.Answer {
		r.slots <- struct{}{}
		v, err := ask()
		<-r.slots
		return func() protocol.Answer { return r.toAnswer(q, v, err) }
	})
	return protocol.ResumeCall(e.Call, protocol.Answer{Later: true}), nil
}

func (r *run) checkBytes() error {
	if r.callBytes > r.p.Limits.Bytes {
		return bridge.OverLimit("bytes", "the program sent more than %d bytes to its tools in all", r.p.Limits.Bytes)
	}
	return nil
}

// answerLater runs do while the program continues. The function that do returns makes the
// answer; it is called when the answer is sent.
func (r *run) answerLater(call uint32, sleep bool, do func() func() protocol.Answer) {
	r.futures[call] = true
	go func() { r.settled <- futureResult{call, sleep, do()} }()
}

func (r *run) toAnswer(q *hostCall, v bridge.Value, err error) protocol.Answer {
	if err != nil {
		return protocol.Answer{Raise: r.toException(err)}
	}
	if q.convert != nil {
		return protocol.Answer{Value: q.convert(v)}
	}
	return protocol.Answer{Value: r.toProgram(v)}
}

// maxRandom is how many random bytes a program can get at once.
const maxRandom = 1 << 20

// maxSleeps is how many tasks of a program may sleep at the same time. They sleep in this
// process, whose memory is not part of the program's limit.
const maxSleeps = 4096

// handleSystemCall answers a system call: sleeping and random bytes. There are no files and
// no environment.
func (r *run) handleSystemCall(e protocol.Event) protocol.Request {
	wait := func() {
		select {
		case <-time.After(time.Duration(min(max(e.Seconds, 0), 1e6) * float64(time.Second))):
		case <-r.ctx.Done():
		}
	}
	switch {
	case e.System == protocol.Sleep:
		wait()
		return protocol.ResumeCall(e.Call, protocol.Answer{})
	case e.System == protocol.AsyncSleep && r.sleeping == maxSleeps:
		return protocol.ResumeCall(e.Call, raise("RuntimeError", "%d tasks of the program sleep: no more can at the same time", maxSleeps))
	case e.System == protocol.AsyncSleep:
		r.sleeping++
		r.answerLater(e.Call, true, func() func() protocol.Answer {
			wait()
			return func() protocol.Answer { return protocol.Answer{} }
		})
		return protocol.ResumeCall(e.Call, protocol.Answer{Later: true})
	case e.System == protocol.Urandom && e.Size <= maxRandom:
		b := make([]byte, e.Size)
		r.fillRandom(b)
		return protocol.ResumeCall(e.Call, protocol.Answer{Value: b})
	}
	return protocol.RefuseSystem(e.Call)
}

// fillRandom fills b with random bytes. They come from the run's seed if it has one.
func (r *run) fillRandom(b []byte) {
	if len(r.p.Seed) == 0 {
		_, _ = rand.Read(b) // documented to never fail
		return
	}
	if r.seededRand == nil {
		r.seededRand = mathrand.NewChaCha8(sha256.Sum256(r.p.Seed))
	}
	_, _ = r.seededRand.Read(b) // neither does this one
}

// parseCall finds out what a call is. It returns the call for the handler, or nil and the
// answer if the call can be answered at once.
func (r *run) parseCall(e protocol.Event) (q *hostCall, now protocol.Answer) {
	args, kwargs, err := r.readArguments(e)
	if err != nil {
		name := e.Name
		if s, ok := r.names.objects[e.Object].(storeObject); ok {
			name = string(s) + "." + name
		}
		return nil, raise("TypeError", "the arguments of %s cannot be sent: %v", name, err)
	}
	if e.Object != (protocol.ObjectID{}) {
		switch o := r.names.objects[e.Object].(type) {
		case *namespace:
			return r.methodCall(o, e.Name, args, kwargs)
		case storeObject:
			return r.storeCall(o, e.Name, args, kwargs)
		case commandResult:
			return nil, o.callMethod(e.Name, args)
		}
		return nil, raise("RuntimeError", "this object is of an earlier run of the session: name it anew")
	}
	if t := r.names.tools[e.Name]; t != nil {
		return r.toolCall(t, args, kwargs)
	}
	if id, ok := strings.CutPrefix(e.Name, functionPrefix); ok { // of an earlier run of the session
		return r.toolCall(&bridge.Tool{ID: id, Path: strings.Split(id, ":"), Open: true}, args, kwargs)
	}
	return r.builtinCall(e, args, kwargs)
}

func (r *run) methodCall(s *namespace, name string, args []bridge.Value, kwargs bridge.Map) (*hostCall, protocol.Answer) {
	if name == "__call__" && s.kind == "cli" && len(s.path) == 2 { // the program itself
		program := r.names.originalName(s.path[1])
		return r.toolCall(&bridge.Tool{ID: program + ":" + program, Path: []string{program, program}, Kind: s.kind, Open: true}, args, kwargs)
	}
	if name == "__call__" {
		name = ""
		if len(args) == 1 {
			name, _ = args[0].(string)
		}
		if name == "" || len(s.path) != 1 {
			return nil, raise("TypeError", "%s is not called: call one of its tools", strings.Join(s.path, "."))
		}
		if c := s.children[name]; c != nil && c.tool != nil {
			return nil, protocol.Answer{Value: r.names.functionValue(c.tool)}
		}
		id := program.Identifier(name)
		r.ready.OriginalNames[id] = name
		if t, below := r.names.member(s, id); t != nil {
			return nil, protocol.Answer{Value: r.names.functionValue(t)}
		} else if below != nil {
			return nil, protocol.Answer{Value: r.names.namespaceObject(below)}
		}
		name = id
	}
	t, _ := r.names.member(s, name)
	if t == nil {
		return nil, raise("TypeError", "%s.%s is not called: call one of its tools", strings.Join(s.path, "."), name)
	}
	return r.toolCall(t, args, kwargs)
}

// toolCall returns the call of a tool.
func (r *run) toolCall(t *bridge.Tool, args []bridge.Value, kwargs bridge.Map) (*hostCall, protocol.Answer) {
	arguments, problem := bindArguments(t, args, kwargs)
	if problem != "" {
		return nil, raise("TypeError", "%s", problem)
	}
	q := &hostCall{do: func() (bridge.Value, error) { return r.h.Call(r.ctx, t.ID, arguments) }}
	if t.Kind == "cli" {
		q.convert = r.commandObject
	}
	return q, protocol.Answer{}
}

// commandWord returns a word of a command line as the text that Python's str would return. It
// returns false if v is neither text nor a number.
func commandWord(v bridge.Value) (string, bool) {
	switch v := v.(type) {
	case bool:
		return map[bool]string{false: "False", true: "True"}[v], true
	case float64:
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if size := math.Abs(v); size == 0 || size >= 1e-4 && size < 1e16 {
			text = strconv.FormatFloat(v, 'f', -1, 64)
			if !strings.Contains(text, ".") {
				text += ".0"
			}
		}
		return text, true
	case string, int64, *big.Int:
		return fmt.Sprint(v), true
	}
	return "", false
}

// bindArguments returns all arguments of a call as one map. Positional arguments get the names
// of the parameters in their order; a single dict is taken as the map itself.
func bindArguments(t *bridge.Tool, args []bridge.Value, kwargs bridge.Map) (arguments bridge.Map, problem string) {
	arguments = kwargs
	if arguments == nil {
		arguments = bridge.Map{}
	}
	var names []string
	for _, p := range t.Parameters {
		if p.Name != "_" {
			names = append(names, p.Name)
		}
	}
	if t.Kind == "cli" && len(args) > 0 {
		words := make([]bridge.Value, len(args))
		for i, a := range args {
			word, ok := commandWord(a)
			if !ok {
				return nil, fmt.Sprintf("word %d of %s is neither text nor a number: give each word as an argument of its own", i+1, program.CallSyntax(t))
			}
			words[i] = word
		}
		return append(arguments, bridge.Member{Key: "_", Value: words}), ""
	}
	if len(args) == 1 && len(kwargs) == 0 && len(names) != 1 {
		if m, ok := args[0].(bridge.Map); ok {
			return m, ""
		}
	}
	if len(args) > len(names) {
		return nil, "too many positional arguments: " + program.CallSyntax(t)
	}
	for i, a := range args {
		for _, m := range kwargs {
			if m.Key == names[i] {
				return nil, "argument " + names[i] + " is given twice: " + program.CallSyntax(t)
			}
		}
		arguments = append(arguments, bridge.Member{Key: names[i], Value: a})
	}
	return arguments, ""
}
