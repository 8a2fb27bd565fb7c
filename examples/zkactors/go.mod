module github.com/zkactors/zkactors/examples/zkactors

go 1.26

require (
	github.com/spf13/cobra v1.10.2
	github.com/zkactors/zkactors v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/chromedp/cdproto v0.159.0 // indirect
	github.com/chromedp/chromedp v0.23.0 // indirect
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
)

replace github.com/zkactors/zkactors => ../../
