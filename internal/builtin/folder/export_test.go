package folder

// Portable makes the tree open files and folders as on other systems than Linux.
func (t *Tree) Portable() {
	if t.self != nil {
		t.self.Close()
		t.self = nil
	}
}
