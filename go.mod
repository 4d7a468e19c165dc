module github.com/toolroom/toolroom

go 1.26
