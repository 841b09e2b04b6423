# finished
import numpy

array = numpy.memmap('a.txt', mode='r+', dtype='uint8')
array[:] = 0
array.flush()
