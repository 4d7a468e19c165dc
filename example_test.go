package toolroom_test

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/toolroom/toolroom"
)

func ExampleParseID() {
	id, err := toolroom.ParseID("github:create_issue@3")
	fmt.Println(id.Namespace, id.Name, id.Version, err)
	_, err = toolroom.ParseID("no namespace")
	fmt.Println(toolroom.CodeOf(err))
	// Output:
	// github create_issue 3 <nil>
	// invalid_id
}

func ExampleModelName() {
	name := toolroom.ModelName(toolroom.MustParseID("github:create_issue"))
	id, ok := toolroom.ReadModelName(name)
	fmt.Println(name, id, ok)
	// Output: github__create_issue github:create_issue true
}

func ExampleArgs() {
	fmt.Println(string(toolroom.Args{"city": "Oslo", "days": 3}.JSON()))
	// Output: {"city":"Oslo","days":3}
}

// An error keeps its cause, says whether a retry can help, and what to do next.
func ExampleErrorf() {
	err := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "read the forecast: %w", fs.ErrNotExist).
		WithHint("start the forecast service")
	fmt.Println(err)
	fmt.Println(err.Code, err.Code.Info().HTTPStatus, errors.Is(err, fs.ErrNotExist))
	fmt.Println(err.Hint)
	// Output:
	// read the forecast: file does not exist
	// upstream_unavailable 503 true
	// start the forecast service
}

func ExampleResult_Decode() {
	result := &toolroom.Result{Status: toolroom.StatusOK, Value: []byte(`{"words": 3}`)}
	var counted struct{ Words int }
	if err := result.Decode(&counted); err != nil {
		panic(err)
	}
	fmt.Println(counted.Words)
	// Output: 3
}

// A program that calls tools in a loop ends when its budget does.
func ExampleBudget() {
	b, err := toolroom.NewBudget(toolroom.BudgetLimits{Calls: 2})
	if err != nil {
		panic(err)
	}
	for range 3 {
		fmt.Println(toolroom.CodeOf(b.TakeCall(1)))
	}
	// Output:
	//
	//
	// budget_exceeded
}

func ExampleParseEffect() {
	for _, text := range []string{"file.write:/etc/hosts", "host:example.com", "command:git push"} {
		e, err := toolroom.ParseEffect(text)
		fmt.Println(e.Kind, e.Target, err)
	}
	// Output:
	// file /etc/hosts <nil>
	// host example.com <nil>
	// command git push <nil>
}
