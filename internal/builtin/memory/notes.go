package memory

import (
	"context"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
)

// Notes keep notes for other packs, in the files of the memory tools.
type Notes struct{ store store }

// MaxNote is the maximum size of one namespace, in bytes.
const MaxNote = maxNote

// NamespaceForm is a regular expression for namespaces.
const NamespaceForm = namespaceForm

// Open returns the notes in a folder.
func Open(dir string) *Notes { return &Notes{store{dir}} }

// Save replaces the text of a namespace, or adds to it.
func (n *Notes) Save(ctx context.Context, who toolroom.Identity, namespace, text string, add bool) error {
	return n.store.change(ctx, identity.Owner(who), namespace, func(old string) (string, error) {
		if !add || old == "" {
			return text, nil
		}
		return strings.TrimRight(old, "\n") + "\n\n" + text, nil
	})
}

// Has reports whether a namespace has a text.
func (n *Notes) Has(who toolroom.Identity, namespace string) bool {
	_, err := n.store.read(identity.Owner(who), namespace)
	return err == nil
}
