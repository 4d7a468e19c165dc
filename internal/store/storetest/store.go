package storetest

import (
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/schedule"
	"github.com/toolroom/toolroom/internal/search"
	"github.com/toolroom/toolroom/internal/session"
	"github.com/toolroom/toolroom/internal/taint"
	"github.com/toolroom/toolroom/internal/token"
)

// Store is Toolroom's persistent state. The package that uses a part defines its
// interface. All parts share one database, so that one file, or one server, is the
// whole state.
type Store interface {
	receipt.Store
	approval.Store
	run.KeyStore
	run.QuestionStore
	token.Store
	artifact.Index
	policy.Elevations
	taint.Store
	session.JournalStore
	policy.SpendingStore
	release.Store
	schedule.Store
	search.LessonStore

	// Close closes the store. Closing it again does nothing.
	Close() error
}
