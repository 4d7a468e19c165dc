//go:build integration

package integration

import (
	"os"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
)

// A person reads and answers questions on the page of the server, in a real browser. A
// question does not lose the focus while nothing changes. When one leaves, those below it
// move up, and a press that was meant for it does not answer another.
func TestQuestionsAreAnsweredOnThePage(t *testing.T) {
	r := newRoom(t, nil)
	r.configure(object{"filesystem": r.filesystem(), "playwright": stdioSource(r.playwrightCommand())}, confirmWrites)
	s := r.serveListed()
	declined := r.startWrite(s, "first.txt")
	first := r.waitForApproval().ID
	approved := r.startWrite(s, "second.txt")

	r.toolroom(0, "call", "playwright:browser_navigate", "url="+s.url)
	js := r.onPage
	const wait = `const wait = ms => new Promise(done => setTimeout(done, ms));`
	const reached = `const reached = () => { const b = document.querySelector('.question button'), at = b.getBoundingClientRect(); return document.elementFromPoint(at.x + at.width / 2, at.y + at.height / 2) === b; };`
	eventually(t, "both questions are on the page", func() bool {
		return js(`() => document.querySelectorAll('.question:not([inert])').length`) == "2"
	})
	if got := js(`async () => {` + wait + `
		const button = document.querySelectorAll('.question button')[3];
		button.focus();
		await wait(7000);
		return [document.activeElement === button, button.textContent].join();
	}`); got != `"true,Decline"` {
		t.Errorf("after two looks for news the focus is elsewhere: %s", got)
	}

	// An error is shown as often as it comes.
	if got := js(`async () => {` + wait + `
		const fetched = window.fetch, shown = [];
		for (const works of [false, true, false, true]) {
			window.fetch = works ? fetched : () => Promise.reject(new Error('gone'));
			refresh();
			await wait(1000);
			shown.push(document.getElementById('failed').innerText);
		}
		return shown.join();
	}`); got != `"gone,,gone,"` {
		t.Errorf("errors of the page: %s", got)
	}

	// The page sees that the first question leaves.
	js(`() => {` + wait + reached + `
		window.seen = [];
		new MutationObserver(async () => { seen.push(reached()); await wait(1500); seen.push(reached()); }).observe(document.getElementById('approvals'), {childList: true});
	}`)
	r.toolroom(0, "approve", "--decline", first)
	eventually(t, "the first question has left the page", func() bool { return js(`() => seen.join()`) == `"false,true"` })

	r.toolroom(0, "call", "playwright:browser_click", "target=.question button >> nth=0")
	eventually(t, "the page says that nothing waits", func() bool {
		return strings.Contains(js(`() => document.body.innerText`), "no approvals are waiting")
	})
	if result := <-declined; result.Error == nil || result.Error.Code != toolroom.CodeApprovalDeclined {
		t.Errorf("the declined call ended with %s: %+v", result.Status, result.Error)
	}
	if result := <-approved; result.Status != toolroom.StatusOK {
		t.Errorf("the approved call ended with %s: %+v", result.Status, result.Error)
	}
	r.wantFile("first.txt", "")
	r.wantFile("second.txt", "written")
}

// onPage runs a JavaScript function on the page in the browser, and returns its result.
func (r *room) onPage(function string) string {
	r.t.Helper()
	out := r.toolroom(0, "call", "playwright:browser_evaluate", "function="+function).stdout
	_, result, _ := strings.Cut(out, "### Result\n")
	result, _, _ = strings.Cut(result, "\n###")
	return strings.TrimSpace(result)
}

// The page offers buttons only to a person who may answer. At the width of a phone, the table of
// tools is not cut off.
func TestThePageOnAPhoneOffersOnlyAnswersThatCount(t *testing.T) {
	r := newRoom(t, nil)
	r.configure(object{"filesystem": r.filesystem(), "playwright": stdioSource(r.playwrightCommand())}, confirmWrites, object{
		"approvals": object{"rules": []object{{"match": "filesystem:write_file", "approvers": []string{"group:finance"}}}},
	})
	s := r.serveListed()
	ended := r.startWrite(s, "first.txt")
	id := r.waitForApproval().ID

	r.toolroom(0, "call", "playwright:browser_resize", "width=390", "height=800")
	r.toolroom(0, "call", "playwright:browser_navigate", "url="+s.url)
	eventually(t, "the question is on the page", func() bool {
		return r.onPage(`() => document.querySelectorAll('.question:not([inert])').length`) == "1"
	})
	if got := r.onPage(`() => [document.querySelectorAll('.question button').length, document.querySelector('.question').innerText.includes('another person must answer: group:finance')].join()`); got != `"0,true"` {
		t.Errorf("the question of other approvers: %s", got)
	}
	for _, query := range []string{"", "read a file"} {
		r.onPage(`() => { document.getElementById('query').value = '` + query + `'; searchTools(); }`)
		eventually(t, "tools are on the page", func() bool {
			return strings.Contains(r.onPage(`() => document.getElementById('tools').innerText`), "filesystem:read_")
		})
		if got := r.onPage(`() => [...document.querySelectorAll('#tools td')].filter(td => td.scrollWidth > td.clientWidth || td.getBoundingClientRect().right > 390).map(td => td.innerText).join('; ')`); got != `""` {
			t.Errorf("cut off after a search for %q: %s", query, got)
		}
	}
	r.toolroom(3, "approve", id)
	s.stop(t, os.Kill)
	<-ended
}
