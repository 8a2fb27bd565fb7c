package main

import (
	"errors"
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// A picture is a file with a chart.
type picture struct {
	file, title string
	dark        string // the file for dark pages; empty if the picture has only one
	servers     string
	after       string // the workload whose table the picture follows
}

// palette returns the colour of a system. Colour-blind readers can distinguish the colours.
func palette(system string) color.Color {
	switch {
	case system == "zkactors" || strings.HasPrefix(system, "zkactors, config"):
		return color.RGBA{0, 114, 178, 255}
	case strings.HasPrefix(system, "zkactors"):
		return color.RGBA{86, 180, 233, 255}
	case strings.HasPrefix(system, "zk.Lock"), strings.HasPrefix(system, "go-zookeeper"):
		return color.RGBA{230, 159, 0, 255}
	case strings.HasPrefix(system, "curator"):
		return color.RGBA{0, 158, 115, 255}
	case strings.HasPrefix(system, "kazoo"):
		return color.RGBA{204, 121, 167, 255}
	}
	return color.RGBA{128, 128, 128, 255}
}

// plot writes all pictures into dir.
func (r report) plot(dir string) ([]picture, error) {
	var all []picture
	var errs []error
	save := func(p *plot.Plot, height vg.Length, servers, after, kind string) {
		if p == nil {
			return
		}
		file := filepath.Join(dir, fileName(servers, after, kind)+".svg")
		if err := p.Save(18*vg.Centimeter, height, file); err != nil {
			errs = append(errs, err)
			return
		}
		all = append(all, picture{file: file, title: p.Title.Text + ", " + kind, servers: servers, after: after})
	}
	families := make(map[string][]result) // by servers and family
	var last []string                     // keys of families, in order
	r.each(func(servers string, w workload, of []result) {
		timed := slices.DeleteFunc(slices.Clone(of), func(r result) bool { return r.OpsPerS <= 0 })
		if len(timed) == 0 {
			return
		}
		save(bars(w, timed), vg.Length(len(timed)+3)*0.9*vg.Centimeter, servers, w.name, "bars")
		save(latencies(w, timed), 9*vg.Centimeter, servers, w.name, "latencies")
		if w.family == "" {
			return
		}
		key := servers + "\n" + w.family
		if families[key] == nil {
			last = append(last, key)
		}
		families[key] = append(families[key], timed...)
	})
	for _, key := range last {
		of := families[key]
		largest := of[len(of)-1]
		save(scaling(of), 9*vg.Centimeter, largest.Servers, largest.Workload, "scaling")
	}
	for _, c := range r.comparisons() {
		more, err := c.plot(dir)
		all, errs = append(all, more...), append(errs, err)
	}
	return all, errors.Join(errs...)
}

// fileName returns the name of a file about the given things. It has no character that has a
// meaning in a shell, or in the protocol of drivers.
func fileName(about ...string) string {
	name := strings.NewReplacer(", ", "-", " ", "-", ":", "-", ",", "-", "'", "", "/", "-").Replace(strings.Join(about, "-"))
	return strings.ToLower(name)
}

// bars shows the operations per second of each system.
func bars(w workload, of []result) *plot.Plot {
	p := plot.New()
	p.Title.Text = w.title
	p.X.Label.Text = "operations/s"
	p.X.Min = 0
	var names []string
	for i, r := range slices.Backward(of) { // the first system at the top
		bar, err := plotter.NewBarChart(plotter.Values{r.OpsPerS}, 0.5*vg.Centimeter)
		if err != nil {
			continue // not a number
		}
		bar.Horizontal = true
		bar.XMin = float64(len(of) - 1 - i)
		bar.Color = palette(r.System)
		bar.LineStyle.Width = 0
		p.Add(bar)
		name := "  " + r.System + " " + figure(r.OpsPerS)
		if r.Note != "" {
			name += " *"
			p.X.Label.Text = "operations/s    * see the remark in the table"
		}
		names = append(names, name)
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.5, float64(len(of))-0.5
	p.X.Max *= 1.02
	p.Title.Padding = 2 * vg.Millimeter
	return p
}

// latencies shows the distributions of latencies.
func latencies(w workload, of []result) *plot.Plot {
	p := plot.New()
	p.Title.Text = w.title
	p.X.Label.Text = "ms"
	p.Y.Label.Text = "part of the operations"
	p.Legend.Left = true
	p.Legend.Top = true
	p.Y.Min, p.Y.Max = 0, 1
	lines := 0
	for _, r := range of {
		if len(r.quantiles) < 10 {
			continue
		}
		points := make(plotter.XYs, len(r.quantiles))
		for i, ms := range r.quantiles {
			points[i] = plotter.XY{X: max(ms, 1e-3), Y: float64(i) / float64(len(r.quantiles)-1)}
		}
		if addLine(p, r.System, points) {
			lines++
		}
	}
	if lines == 0 {
		return nil
	}
	logarithmic(&p.X)
	return p
}

// scaling shows the operations per second by the size of the workload.
func scaling(of []result) *plot.Plot {
	bySystem := make(map[string]plotter.XYs)
	var order []string
	for _, r := range of {
		if bySystem[r.System] == nil {
			order = append(order, r.System)
		}
		bySystem[r.System] = append(bySystem[r.System], plotter.XY{X: float64(r.workload.size), Y: r.OpsPerS})
	}
	p := plot.New()
	p.Title.Text = of[0].workload.family
	p.X.Label.Text = fmt.Sprintf("size of %s", of[0].workload.family)
	p.Y.Label.Text = "operations/s"
	p.Y.Min = 0
	p.Legend.Top = true
	lines := 0
	for _, system := range order {
		if len(bySystem[system]) > 1 && addLine(p, system, bySystem[system]) {
			lines++
		}
	}
	if lines == 0 {
		return nil
	}
	logarithmic(&p.X)
	return p
}

func addLine(p *plot.Plot, name string, points plotter.XYs) bool {
	line, err := plotter.NewLine(points)
	if err != nil {
		return false // not a number
	}
	line.Color = palette(name)
	line.Width = vg.Points(1.5)
	p.Add(line)
	p.Legend.Add(name, line)
	return true
}

// logarithmic gives an axis a logarithmic scale. If all its values are equal, it widens the axis.
func logarithmic(axis *plot.Axis) {
	if axis.Max <= axis.Min {
		axis.Min, axis.Max = axis.Min/2, axis.Max*2
	}
	axis.Min = math.Max(axis.Min, 1e-3)
	axis.Scale = plot.LogScale{}
	axis.Tick.Marker = plot.LogTicks{Prec: -1}
}
