from dispatchflow import main

main()
