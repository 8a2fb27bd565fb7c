module github.com/zkactors/zkactors/examples/zkactors

go 1.26

require (
	github.com/spf13/cobra v1.10.2
	github.com/zkactors/zkactors v0.0.0
	go.uber.org/goleak v1.3.0
)

replace github.com/zkactors/zkactors => ../../
