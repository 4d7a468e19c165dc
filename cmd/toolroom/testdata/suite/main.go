// Command suite is all tools of the suite as one WebAssembly module.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
)

var kept []string

func main() {
	var in struct {
		V      json.RawMessage
		A, B   json.RawMessage
		N      int
		Values []int
		Secret string
	}
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		fail(err)
	}
	secret := os.Getenv("SECRET_SHOP_TOKEN")
	switch tool := strings.TrimPrefix(os.Getenv("TOOLROOM_TOOL"), "fn:"); tool {
	case "echo":
		fmt.Println(string(in.V))
	case "defaults":
		fmt.Println(string(in.A) + strings.Trim(string(in.B), `"`))
	case "boom":
		fail(fmt.Errorf("the reason"))
	case "nan":
		fmt.Println(`{"a": [NaN]}`)
	case "cycle":
		fmt.Println(strings.Repeat("[", 200))
	case "surrogate":
		fmt.Println(`"\ud800"`)
	case "wrong":
		fmt.Println(`"text"`)
	case "big":
		fmt.Println("9223372036854775808")
	case "huge":
		fmt.Println(strings.Repeat("x", 100_000_000))
	case "count":
		for i := range in.N {
			fmt.Println(i)
		}
	case "add":
		var a, b int
		if err := json.Unmarshal(in.A, &a); err != nil {
			fail(err)
		}
		if err := json.Unmarshal(in.B, &b); err != nil {
			fail(err)
		}
		fmt.Println(a + b)
	case "forever":
		for {
		}
	case "token_length":
		fmt.Println(len(secret))
	case "tell":
		fmt.Println(secret)
	case "undeclared":
		fail(fmt.Errorf("there is no secret %q", secret))
	case "about":
		var config struct{ Greeting string }
		if err := json.Unmarshal([]byte(os.Getenv("TOOLROOM_CONFIG")), &config); err != nil {
			fail(err)
		}
		fmt.Printf(`{"greeting":%q,"env":%q,"call":%q}`, config.Greeting, os.Getenv("TOOLROOM_ENVIRONMENT"), os.Getenv("TOOLROOM_CALL")[:5])
	case "leak":
		fmt.Fprintln(os.Stderr, "the log of", in.Secret)
		found := append([]string{}, kept...)
		if v := os.Getenv("LEAK"); v != "" {
			found = append(found, v)
		}
		kept = append(kept, in.Secret)
		os.Setenv("LEAK", in.Secret)
		os.WriteFile("leak", []byte(in.Secret), 0o600)
		json.NewEncoder(os.Stdout).Encode(found)
	case "flood":
		for {
			fmt.Println(strings.Repeat("x", 1000))
		}
	case "hog":
		var all [][]byte
		for {
			all = append(all, make([]byte, 1<<20))
		}
	default:
		call(tool, in.Values)
	}
}

// call does what needs the bridge.
func call(tool string, values []int) {
	ctx := context.Background()
	job, err := bridge.Open(ctx)
	if err != nil {
		fail(err)
	}
	ask := func(kind bridge.Kind, body bridge.Map) bridge.Value {
		v, err := job.Ask(ctx, kind, body)
		if err != nil {
			var known *toolroom.Error
			errors.As(err, &known)
			job.End(bridge.End{Failure: &bridge.Failure{Kind: bridge.FailProgram, Message: err.Error(), Tool: known}})
			os.Exit(0)
		}
		return v
	}
	var value bridge.Value
	switch tool {
	case "sum_all":
		value = int64(0)
		for _, v := range values {
			value = ask(bridge.Call, bridge.Map{{Key: "tool", Value: "fn:add"}, {Key: "arguments", Value: bridge.Map{{Key: "a", Value: value}, {Key: "b", Value: int64(v)}}}})
		}
	case "itself":
		value = ask(bridge.Call, bridge.Map{{Key: "tool", Value: "fn:itself"}, {Key: "arguments", Value: bridge.Map{}}})
	case "report":
		job.Send(bridge.Progress, 0, bridge.Map{{Key: "done", Value: 1.0}, {Key: "total", Value: 2.0}, {Key: "message", Value: "half"}})
		job.Send(bridge.Log, 0, bridge.Map{{Key: "level", Value: "warning"}, {Key: "message", Value: "careful"}, {Key: "fields", Value: bridge.Map{}}})
		value = true
	case "keep":
		handle, _ := ask(bridge.Put, bridge.Map{{Key: "name", Value: "a.txt"}, {Key: "media_type", Value: "text/plain"}, {Key: "data", Value: []byte("abc")}}).(bridge.Handle)
		part, _ := ask(bridge.Get, bridge.Map{{Key: "handle", Value: handle.ID}, {Key: "offset", Value: int64(0)}, {Key: "length", Value: int64(0)}}).(bridge.Map)
		data, _ := part.Get("data").([]byte)
		value = string(data)
	default:
		fail(fmt.Errorf("there is no tool %q", tool))
	}
	if err := job.End(bridge.End{Value: value}); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(3)
}
