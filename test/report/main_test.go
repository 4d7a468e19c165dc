package main

import (
	"strings"
	"testing"
)

func TestAReportSaysWhatFailedAndWhatWasSkippedAndWhy(t *testing.T) {
	t.Parallel()
	events := `{"Action":"output","Package":"m/a","Test":"TestGood","Output":"not shown\n--- PASS: TestGood (0.00s)\n"}
{"Action":"pass","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestBad","Output":"    a_test.go:1: got 1\n"}
{"Action":"fail","Package":"m/a","Test":"TestBad"}
{"Action":"output","Package":"m/a","Test":"TestSlow","Output":"    a_test.go:7: slow: it takes an hour\n"}
{"Action":"skip","Package":"m/a","Test":"TestSlow"}
{"Action":"output","Package":"m/b","Test":"TestOther/part","Output":"    b_test.go:6: a note\n    checks.go:7: slow: it takes an hour\n"}
{"Action":"skip","Package":"m/b","Test":"TestOther/part"}
{"Action":"skip","Package":"m/b","Test":"TestSilent"}
{"Action":"output","Package":"m/a","Output":"PASS\n"}
{"Action":"output","Package":"m/a","Output":"FAIL\tm/a\t0.1s\n"}
{"Action":"output","Package":"m/d","Test":"TestKilled","Output":"the process died here\n"}
{"Action":"output","Package":"m/e","Test":"TestLast","Output":"goroutine 1\n"}
{"Action":"pass","Package":"m/e","Test":"TestLast"}
{"Action":"output","Package":"m/e","Output":"FAIL\tm/e\t0.1s\n"}
{"Action":"fail","Package":"m/e"}
{"Action":"output","Package":"m/d","Output":"FAIL\tm/d\t0.1s\n"}
{"Action":"fail","Package":"m/d"}
{"Action":"output","Package":"m/c","Output":"?   \tm/c\t[no test files]\n"}
{"Action":"skip","Package":"m/c"}
no event
`
	want := `    a_test.go:1: got 1
FAIL	m/a	0.1s
FAIL	m/e	0.1s
goroutine 1
FAIL	m/d	0.1s
the process died here
no event

skipped:
  no reason
    b.TestSilent
  slow: it takes an hour
    a.TestSlow, b.TestOther/part
`
	var out strings.Builder
	if report(strings.NewReader(events), &out); out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	if report(strings.NewReader(`{"Action":"pass","Package":"m/a","Test":"TestGood"}`), &out); out.String() != "" {
		t.Errorf("without a skipped test it prints %q", out.String())
	}
}
