package server

import (
	"context"
	_ "embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
)

//go:embed answer.html
var answerHTML string

var answerPage = sync.OnceValue(func() *template.Template { return template.Must(template.New("answer").Parse(answerHTML)) })

// maxAnswer is the maximum size of an answer, in bytes.
const maxAnswer = 16 << 10

// linkedApprovals reads and answers the approvals of links.
type linkedApprovals interface {
	OpenLink(ctx context.Context, token string) (*toolroom.Approval, string, error)
	Answer(ctx context.Context, id string, a toolroom.Answer) (*toolroom.Approval, error)
}

// answerView is the data of the page.
type answerView struct {
	*toolroom.Approval
	Error  string
	Hint   string
	Scopes []toolroom.ApprovalScope
}

// answerHandler returns a handler of the signed links by which people answer approvals,
// below [approval.AnswerPath]. Opening a link shows the call and changes nothing, so that
// previews of mail and chat programs approve nothing; only the page's button answers. The
// token in the path alone identifies the person; the handler requires no other proof.
func answerHandler(approvals linkedApprovals, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+approval.AnswerPath+"{token}", func(w http.ResponseWriter, r *http.Request) {
		a, _, err := approvals.OpenLink(r.Context(), r.PathValue("token"))
		showAnswer(w, log, a, err)
	})
	mux.HandleFunc("POST "+approval.AnswerPath+"{token}", func(w http.ResponseWriter, r *http.Request) {
		// Because of the page's Content-Security-Policy, browsers send "null" as its
		// Origin. So only Sec-Fetch-Site distinguishes its form from those of other
		// pages.
		if sites := r.Header.Values("Sec-Fetch-Site"); len(sites) > 1 || len(sites) == 1 && sites[0] != "same-origin" {
			showAnswer(w, log, nil, toolroom.Errorf(toolroom.CodeDenied, "another page sent this answer").WithHint("open the link and answer there"))
			return
		}
		a, name, err := approvals.OpenLink(r.Context(), r.PathValue("token"))
		if err != nil {
			showAnswer(w, log, nil, err)
			return
		}
		answer, err := readAnswer(w, r)
		if err == nil {
			answer.By, answer.Hook = "hook:"+name, name
			var done *toolroom.Approval
			if done, err = approvals.Answer(r.Context(), a.ID, answer); err == nil {
				a = done
			}
		}
		showAnswer(w, log, a, err)
	})
	return secureHeaders(mux)
}

func readAnswer(w http.ResponseWriter, r *http.Request) (toolroom.Answer, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxAnswer)
	if err := r.ParseForm(); err != nil {
		return toolroom.Answer{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "read the answer: %w", err)
	}
	for name, values := range r.PostForm {
		if len(values) > 1 || name != "answer" && name != "scope" && name != "comment" {
			return toolroom.Answer{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "the answer has the field %q, which is unknown or repeated", name)
		}
	}
	// Ignore the URL's query: a link must not contain an answer.
	answer := toolroom.Answer{Comment: r.PostForm.Get("comment"), Scope: toolroom.ApprovalScope(r.PostForm.Get("scope"))}
	switch r.PostForm.Get("answer") {
	case "approve":
		answer.Approve = true
	case "decline":
	default:
		return answer, toolroom.Errorf(toolroom.CodeInvalidArguments, "the answer does not say whether to approve")
	}
	return answer, nil
}

func showAnswer(w http.ResponseWriter, log *slog.Logger, a *toolroom.Approval, err error) {
	status := http.StatusOK
	v := answerView{Approval: a}
	if a != nil && a.State == toolroom.ApprovalPending {
		v.Scopes = approval.PermittedScopes(a)
	}
	if err != nil {
		e := toolroom.AsError(err)
		status, v.Error, v.Hint = e.Code.Info().HTTPStatus, e.Message, e.Hint
		if errors.Is(err, context.Canceled) {
			return
		}
	}
	w.WriteHeader(status)
	if err := answerPage().Execute(w, v); err != nil {
		log.Warn("cannot show an approval", "error", err)
	}
}

// secureHeaders sets headers that keep the token out of the logs and caches of others, and
// the page out of frames, in which another site could capture clicks.
func secureHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Robots-Tag", "noindex, nofollow")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
