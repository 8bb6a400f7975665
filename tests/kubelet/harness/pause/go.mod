module eventsched.example/pause

go 1.26.0
