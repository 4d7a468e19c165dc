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

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/monty/program"
	"github.com/toolroom/toolroom/internal/engine/monty/protocol"
)

// lookUp returns the value of a name, or of a member of one of our objects.
func (r *run) lookUp(e protocol.Event) protocol.Request {
	if e.Object != (protocol.ObjectID{}) {
		return r.lookUpMember(e)
	}
	if s := r.names.root.children[e.Name]; s != nil {
		if s.tool != nil {
			return protocol.ResumeLookup(protocol.Answer{Value: r.names.function(s.tool)})
		}
		return protocol.ResumeLookup(protocol.Answer{Value: r.names.object(s)})
	}
	switch {
	case functions[e.Name]:
		return protocol.ResumeLookup(protocol.Answer{Value: protocol.Function{Name: e.Name}})
	case e.Name == "artifacts" || e.Name == "results":
		return protocol.ResumeLookup(protocol.Answer{Value: protocol.Instance{ID: r.names.keep(store(e.Name)), Class: e.Name}})
	}
	if reason := r.p.Withheld.Text(e.Name); reason != "" {
		return protocol.ResumeLookup(raise("NameError", "name '%s' is not defined. %s", e.Name, reason))
	}
	return protocol.Undefined()
}

func (r *run) lookUpMember(e protocol.Event) protocol.Request {
	s, ok := r.names.objects[e.Object].(*namespace)
	if !ok || strings.HasPrefix(e.Name, "__") {
		return protocol.Undefined()
	}
	if reason := r.p.Withheld.Text(strings.Join(append(s.path[:len(s.path):len(s.path)], e.Name), ".")); reason != "" {
		return protocol.ResumeLookup(raise("AttributeError", "%s", reason))
	}
	tool, below := r.names.member(s, e.Name)
	if tool != nil {
		return protocol.ResumeLookup(protocol.Answer{Value: r.names.function(tool)})
	}
	return protocol.ResumeLookup(protocol.Answer{Value: r.names.object(below)})
}

func raise(class, format string, args ...any) protocol.Answer {
	return protocol.Answer{Raise: &protocol.Exception{Type: class, Message: fmt.Sprintf(format, args...)}}
}

// question is a call of the program, and the conversion of its answer to a value.
type question struct {
	ask  func() (bridge.Value, error)
	then func(bridge.Value) any
}

// call answers a call. One of a program that awaits is answered later.
func (r *run) call(e protocol.Event) (protocol.Request, error) {
	if r.bytes += int64(e.Bytes); r.bytes > r.p.Limits.Bytes {
		return nil, bridge.OverLimit("bytes", "the program sent more than %d bytes to its tools in all", r.p.Limits.Bytes)
	}
	q, now := r.question(e)
	if q == nil {
		return protocol.ResumeCall(e.Call, now), nil
	}
	r.asked++
	if r.asked > r.p.Limits.Calls+bridge.OverAsking {
		return nil, bridge.OverLimit("calls", "the program went on to ask long after its limit of %d calls", r.p.Limits.Calls)
	}
	ask := q.ask
	if r.asked > r.p.Limits.Calls {
		ask = func() (bridge.Value, error) { return nil, bridge.OverCalls(r.p.Limits.Calls) }
	}
	if !r.ready.Awaits {
		v, err := ask()
		return protocol.ResumeCall(e.Call, r.answer(q, v, err)), nil
	}
	r.later(e.Call, false, func() func() protocol.Answer {
		r.slots <- struct{}{}
		v, err := ask()
		<-r.slots
		return func() protocol.Answer { return r.answer(q, v, err) }
	})
	return protocol.ResumeCall(e.Call, protocol.Answer{Later: true}), nil
}

// later answers a call while the program continues. The function that do returns is
// called when the answer is sent.
func (r *run) later(call uint32, sleep bool, do func() func() protocol.Answer) {
	r.futures[call] = true
	go func() { r.settled <- settled{call, sleep, do()} }()
}

func (r *run) answer(q *question, v bridge.Value, err error) protocol.Answer {
	if err != nil {
		return protocol.Answer{Raise: r.raise(err)}
	}
	if q.then != nil {
		return protocol.Answer{Value: q.then(v)}
	}
	return protocol.Answer{Value: r.give(v)}
}

// maxRandom is how many random bytes a program can get at once.
const maxRandom = 1 << 20

// maxSleeps is how many tasks of a program may sleep at the same time: they do so in this
// process, whose memory the program's limit does not count.
const maxSleeps = 4096

// system answers a call of the system. There are no files and no environment.
func (r *run) system(e protocol.Event) protocol.Request {
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
	case e.System == protocol.AsyncSleep && r.sleeps == maxSleeps:
		return protocol.ResumeCall(e.Call, raise("RuntimeError", "%d tasks of the program sleep: no more can at the same time", maxSleeps))
	case e.System == protocol.AsyncSleep:
		r.sleeps++
		r.later(e.Call, true, func() func() protocol.Answer {
			wait()
			return func() protocol.Answer { return protocol.Answer{} }
		})
		return protocol.ResumeCall(e.Call, protocol.Answer{Later: true})
	case e.System == protocol.Urandom && e.Size <= maxRandom:
		b := make([]byte, e.Size)
		r.random(b)
		return protocol.ResumeCall(e.Call, protocol.Answer{Value: b})
	}
	return protocol.RefuseSystem(e.Call)
}

// random fills b with random bytes, from the run's seed if it has one.
func (r *run) random(b []byte) {
	if len(r.p.Seed) == 0 {
		_, _ = rand.Read(b) // documented to never fail
		return
	}
	if r.seeded == nil {
		r.seeded = mathrand.NewChaCha8(sha256.Sum256(r.p.Seed))
	}
	_, _ = r.seeded.Read(b) // neither does this one
}

// question returns the meaning of a call. If it is nil, now answers the call at once.
func (r *run) question(e protocol.Event) (q *question, now protocol.Answer) {
	args, kwargs, err := r.take(e)
	if err != nil {
		name := e.Name
		if s, ok := r.names.objects[e.Object].(store); ok {
			name = string(s) + "." + name
		}
		return nil, raise("TypeError", "the arguments of %s cannot be sent: %v", name, err)
	}
	if e.Object != (protocol.ObjectID{}) {
		switch o := r.names.objects[e.Object].(type) {
		case *namespace:
			return r.method(o, e.Name, args, kwargs)
		case store:
			return r.stored(o, e.Name, args, kwargs)
		case command:
			return nil, o.method(e.Name, args)
		}
		return nil, raise("RuntimeError", "this object is of an earlier run of the session: name it anew")
	}
	if t := r.names.tools[e.Name]; t != nil {
		return r.tool(t, args, kwargs)
	}
	if id, ok := strings.CutPrefix(e.Name, functionPrefix); ok { // of an earlier run of the session
		return r.tool(&bridge.Tool{ID: id, Path: strings.Split(id, ":"), Open: true}, args, kwargs)
	}
	return r.function(e, args, kwargs)
}

func (r *run) method(s *namespace, name string, args []bridge.Value, kwargs bridge.Map) (*question, protocol.Answer) {
	if name == "__call__" && s.kind == "cli" && len(s.path) == 2 { // the program itself
		program := r.names.spelled(s.path[1])
		return r.tool(&bridge.Tool{ID: program + ":" + program, Path: []string{program, program}, Kind: s.kind, Open: true}, args, kwargs)
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
			return nil, protocol.Answer{Value: r.names.function(c.tool)}
		}
		id := program.Identifier(name)
		r.ready.Spelled[id] = name
		if t, below := r.names.member(s, id); t != nil {
			return nil, protocol.Answer{Value: r.names.function(t)}
		} else if below != nil {
			return nil, protocol.Answer{Value: r.names.object(below)}
		}
		name = id
	}
	t, _ := r.names.member(s, name)
	if t == nil {
		return nil, raise("TypeError", "%s.%s is not called: call one of its tools", strings.Join(s.path, "."), name)
	}
	return r.tool(t, args, kwargs)
}

// tool is a call of a tool.
func (r *run) tool(t *bridge.Tool, args []bridge.Value, kwargs bridge.Map) (*question, protocol.Answer) {
	arguments, problem := bind(t, args, kwargs)
	if problem != "" {
		return nil, raise("TypeError", "%s", problem)
	}
	q := &question{ask: func() (bridge.Value, error) { return r.h.Call(r.ctx, t.ID, arguments) }}
	if t.Kind == "cli" {
		q.then = r.command
	}
	return q, protocol.Answer{}
}

// word returns the text of a word of a command line, as Python's str writes it.
func word(v bridge.Value) (string, bool) {
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

// bind makes one map of arguments: those by position follow the parameters, and
// one dict alone is all of them.
func bind(t *bridge.Tool, args []bridge.Value, kwargs bridge.Map) (arguments bridge.Map, problem string) {
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
			word, ok := word(a)
			if !ok {
				return nil, fmt.Sprintf("word %d of %s is neither text nor a number: give each word as an argument of its own", i+1, program.Shape(t))
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
		return nil, "too many positional arguments: " + program.Shape(t)
	}
	for i, a := range args {
		for _, m := range kwargs {
			if m.Key == names[i] {
				return nil, "argument " + names[i] + " is given twice: " + program.Shape(t)
			}
		}
		arguments = append(arguments, bridge.Member{Key: names[i], Value: a})
	}
	return arguments, ""
}
